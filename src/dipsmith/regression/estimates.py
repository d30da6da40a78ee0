"""Estimates: what one analysis of one table says, before anything is combined.

An estimator is any function from an Arrow table to `Estimates`; `dipsmith.regression.analysis` makes them from
formulas, and a researcher may write one. Its variances are those of an ordinary analysis, as if the table had been
sampled and not synthesised: what privacy adds is the business of `combine` and `noise_aware`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError

LEVEL: Final = re.compile(r"\[(?:T\.)?.*?\](?=:|$)")
"""The level in a coefficient's name: what it leaves is the term."""


def term_of(name: str) -> str:
    """The term of a coefficient: its name without levels, and without the part of the rows that it is about.

    >>> term_of("year 1996: race[T.B]:age")
    'race:age'
    """
    return LEVEL.sub("", name).rsplit(": ", 1)[-1]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Named estimates with their sampling covariance.

    Values are NaN where this table cannot tell. `df` are residual degrees of freedom, infinite where normal quantiles
    apply; `notes` are for the reader; `family` says how they were found, where that was not decided beforehand.
    """

    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    rows: int
    df: float = inf
    notes: tuple[str, ...] = ()
    family: str = ""

    @property
    def variances(self) -> Floats:
        """The sampling variance of every estimate."""
        return np.diag(self.covariance).copy()

    @classmethod
    def of(cls, result: object, rows: int) -> Estimates:
        """What an estimator returned: estimates, or a pair of values and variances.

        >>> Estimates.of((0.3, 0.01), rows=50).names
        ('estimate',)
        """
        if isinstance(result, Estimates):
            return result
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise UsageError(
                f"an estimator returned a {type(result).__name__}, expected Estimates or a pair (values, variances)"
            )
        values, spread = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in result)
        if values.ndim != 1 or spread.shape not in {(len(values),), (len(values), len(values))}:
            raise UsageError(
                f"an estimator returned values of shape {values.shape} with variances of shape {spread.shape}; "
                "expected one variance per value, or their covariance matrix"
            )
        covariance = spread if spread.ndim == 2 else np.diag(spread)
        return cls(names_of(len(values)), values, covariance, rows)


Estimator = Callable[[Any], "Estimates | tuple[ArrayLike, ArrayLike]"]
"""From an Arrow table to estimates."""


def names_of(count: int, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Names for so many estimates.

    >>> names_of(2)
    ('estimate 1', 'estimate 2')
    """
    if given is None:
        return ("estimate",) if count == 1 else tuple(f"estimate {i + 1}" for i in range(count))
    if len(given) != count:
        raise UsageError(f"{len(given)} names for {count} estimates; give one name each")
    return tuple(given)


def stack(each: Sequence[Estimates]) -> tuple[Floats, Floats]:
    """Values and variances of several tables, one line each; refuses tables that estimate different things."""
    names = each[0].names
    for other in each[1:]:
        if other.names != names:
            raise UsageError(
                "the sets do not give the same estimates "
                f"({len(names)} in the first, {len(other.names)} in another); estimate the same things in each"
            )
    return np.array([e.values for e in each]), np.array([e.variances for e in each])


def join_notes(each: Sequence[Estimates]) -> tuple[str, ...]:
    """The notes of several tables, each once."""
    return tuple(dict.fromkeys(note for e in each for note in e.notes))
