"""The public domain of an attribute: the finite list of codes that its values can take.

A domain is an input, never computed from private rows. It is one of two things: `Categories`, a list
of raw values with the (possibly collapsed) label under which each is released; or `Bins`, intervals
of a number, an integer or a point in time. Codes are 0 … size − 1 in the order of the labels; where
missing values are allowed they are the last code. Both check themselves when they are made, so that
whatever holds one may rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import SchemaError
from dipsmith.schema.spelling import Spelling

MISSING_LABEL = "(missing)"
DATA_DERIVED = "data-derived"
"""The provenance of domains that were read from the rows."""
MAX_LEVELS = 100_000
"""More codes than this in one column are refused: no table over it could be released usefully."""
MAX_VALUES = 2_000_000
"""More raw values than this in one code list are refused, however few labels they collapse to."""
LARGEST = 2.0**53 - 1
"""Whole numbers are exact up to here; bounds and integer values beyond it are refused."""

Scale = Literal["integer", "number", "date", "datetime"]
Law = Literal["uniform", "log"]
OpenEnds = Literal["none", "low", "high", "both"]


class Coded:
    """What all domains share: a label for each code, and the missing level as the last code where it is allowed."""

    labels: tuple[str, ...]
    missing: bool

    @property
    def size(self) -> int:
        """Number of codes, the missing level included."""
        return len(self.labels) + self.missing

    @property
    def missing_code(self) -> int | None:
        """The code of missing values, or None."""
        return len(self.labels) if self.missing else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every code, the missing level included."""
        return (*self.labels, MISSING_LABEL) if self.missing else self.labels


@dataclass(frozen=True)
class Categories(Coded):
    """A finite list of raw values, each with the code of the label it is released under.

    `labels` are the distinct labels after collapsing, in the order in which the values first use them; `codes` has for
    each raw value the code of its label. `other` is the code that a value outside the list gets, if any. With `missing`,
    missing values are a level of their own, the last code. `ordered` says that neighbouring codes are neighbours in
    meaning (years of education, grades).

    >>> Categories.of(["F", "M"], other="M").size
    2
    >>> Categories.of(["0601", "0602", "0301"], {"0601": "06", "0602": "06", "0301": "03"}).labels
    ('06', '03')
    """

    values: tuple[str, ...]
    labels: tuple[str, ...]
    codes: tuple[int, ...]
    other: int | None = None
    missing: bool = False
    ordered: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise SchemaError("the list of values is empty; name at least one value")
        if len(self.values) > MAX_VALUES:
            raise SchemaError(f"{len(self.values):,} values are listed, at most {MAX_VALUES:,} are supported")
        if len(self.labels) > MAX_LEVELS:
            raise SchemaError(f"{len(self.labels):,} labels are more than the {MAX_LEVELS:,} supported; collapse them")
        _check_texts(self.values, "value")
        _check_texts(self.labels, "label")
        if len(self.codes) != len(self.values):
            raise SchemaError(f"{len(self.values)} values need as many codes, got {len(self.codes)}")
        if tuple(dict.fromkeys(self.codes)) != tuple(range(len(self.labels))):
            raise SchemaError("labels must be listed in the order in which the values first use them")
        if self.other is not None and not 0 <= self.other < len(self.labels):
            raise SchemaError(f"other is code {self.other}, outside the {len(self.labels)} labels")

    @classmethod
    def of(
        cls,
        values: Sequence[str],
        labels: Mapping[str, str] | None = None,
        *,
        other: str | None = None,
        missing: bool = False,
        ordered: bool = False,
    ) -> Categories:
        """Make a list whose values are released under `labels[value]`, or as they are when unmapped."""
        listed, labels = tuple(values), labels or {}
        shown = [labels.get(v, v) for v in listed]
        position = {label: i for i, label in enumerate(dict.fromkeys(shown))}
        if other is not None and other not in listed:
            raise SchemaError(f"other '{other}' is not one of the listed values; add it to enum")
        codes = tuple(position[label] for label in shown)
        code = None if other is None else position[labels.get(other, other)]
        return cls(listed, tuple(position), codes, code, missing, ordered)

    @property
    def total(self) -> bool:
        """Whether every value, listed or not, has a code; otherwise its row is dropped."""
        return self.missing or self.other is not None


def _check_texts(texts: Sequence[str], what: str) -> None:
    """Refuse texts that two rows could not tell apart, or that no file could carry."""
    if len(set(texts)) != len(texts):
        seen: set[str] = set()
        twice = next(t for t in texts if t in seen or seen.add(t))  # type: ignore[func-returns-value]
        raise SchemaError(f"{what} '{twice}' is listed twice; list it once")
    if MISSING_LABEL in texts:
        raise SchemaError(f"{what} '{MISSING_LABEL}' is reserved for missing values; use missing: true instead")
    for padded in (t for t in texts if t.strip(" ") != t or not t):
        if not padded.strip(" "):
            raise SchemaError(f"an empty {what} is listed; empty values count as missing: use missing: true")
        padding = "spaces around values are ignored: remove them"
        raise SchemaError(f"{what} '{padded}' begins or ends with a space; {padding}")
    joined = "".join(texts)
    if "\0" in joined or joined.encode("utf-8", "ignore") != joined.encode("utf-8", "surrogatepass"):
        raise SchemaError(f"a {what} contains NUL or an unpaired surrogate; remove it")


@dataclass(frozen=True)
class Bins(Coded):
    """Intervals of an ordered scale: code i covers [edges[i], edges[i+1]), the last one closed.

    Dates are whole days and datetimes whole microseconds since 1970-01-01. On whole scales (all but `number`) an edge is
    the first value of its bin and the last edge is one past the maximum; on the number scale the last edge is the
    maximum. Values outside `minimum` and `maximum` are clipped to them. With `missing`, missing values are the last code.

    How values are released: drawn within a bin by `law`, evenly or evenly in the logarithm, in multiples of `step` (a power of
    ten such as 0.01 on the number scale, microseconds for moments; None where the schema does not say). `open` are the ends
    beyond which values may lie: they are counted in the end bin, and nobody states how far they reach. `spelling` says how
    cells are written in the table that is read, where these are no plain numbers or ISO dates.

    >>> Bins((17, 30, 65, 91), "integer", ("young", "middle", "old"), 17, 90).size
    3
    """

    edges: tuple[float, ...]
    scale: Scale
    labels: tuple[str, ...]
    minimum: float
    maximum: float
    missing: bool = False
    law: Law = "uniform"
    step: float | None = None
    open: OpenEnds = "none"
    spelling: Spelling | None = None
    ordered: ClassVar[bool] = True
    total: ClassVar[bool] = True
    """Every value has a code: values outside are clipped, unreadable ones count as the minimum."""

    def __post_init__(self) -> None:
        edges = self.cuts
        if len(edges) != len(self.labels) + 1 or len(edges) < 2:
            raise SchemaError(f"{len(edges)} bin edges need {len(edges) - 1} labels, got {len(self.labels)}")
        if len(self.labels) > MAX_LEVELS:
            raise SchemaError(f"{len(self.labels):,} bins are more than the {MAX_LEVELS:,} supported; widen them")
        if not np.isfinite(edges).all() or (self.whole and np.abs(edges).max() > LARGEST):
            raise SchemaError("bin edges must be finite, and whole numbers below 2**53; choose closer bounds")
        if not (np.diff(edges) > 0).all():
            raise SchemaError("bin edges must increase from one to the next")
        if self.whole and (edges != np.rint(edges)).any():
            raise SchemaError(f"bin edges on the {self.scale} scale must be whole")
        if len(set(self.labels)) != len(self.labels) or MISSING_LABEL in self.labels:
            raise SchemaError(f"bin labels must differ from one another and from {MISSING_LABEL}")
        if self.step is not None and not (np.diff(np.ceil(edges / self.step - 1e-9)) >= 1).all():
            raise SchemaError("a bin holds no value of the stated precision; widen it, or state a finer one")
        if self.minimum != edges[0] or self.maximum != edges[-1] - self.whole:
            raise SchemaError("the first and last bin edge must agree with minimum and maximum")

    @property
    def whole(self) -> bool:
        """Whether values come in whole steps, so that the last edge is one past the maximum."""
        return self.scale != "number"

    @cached_property
    def cuts(self) -> NDArray[np.float64]:
        """The edges as an array."""
        return np.asarray(self.edges, dtype=np.float64)


Domain = Categories | Bins
