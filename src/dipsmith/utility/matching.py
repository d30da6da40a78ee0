"""Correctly synthesised labels: row by row where rows can be matched, in expectation where they cannot.

A release of labels is in an order that tells nothing, so its rows cannot be matched with the authentic ones. But the
model gives the probability of every label for every authentic row, and the mean probability of the *true* label is
the share that a drawn label gets right. A third file, labelled by the model and joined with the authentic rows by an
identifier, gives the share that was got right (the agreement rates of the Duke studies). Drawing labels from their
marginal alone would also get some right; that share stands beside it.

These are exact statistics of private rows: never release them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.codec.parse import texts
from dipsmith.errors import SourceError, UsageError
from dipsmith.methods.method import Labeller
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.sources import Source
from dipsmith.utility.findings import mean
from dipsmith.utility.pair import comparable, released_codes

ROWS_AT_ONCE = 1 << 16
JOINT_LABELS = 2000


@dataclass(frozen=True)
class Correct:
    """Share of labels that are right, and what labels drawn from the marginal would get."""

    target: str
    share: float
    by_chance: float


@dataclass(frozen=True)
class Matched:
    """A third file joined with the authentic rows by an identifier.

    Of its `rows` the share `matched` has exactly one authentic row of the same identifier; where that occurs more than once in
    either file the row is `ambiguous`, and not counted. `correct` has an entry per target, over the matched rows, and one for
    all together where there are several.
    """

    on: tuple[str, ...]
    rows: int
    matched: float
    ambiguous: float
    correct: tuple[Correct, ...]


def expected_correct(model: object, authentic: Codes) -> tuple[Correct, ...]:
    """The expected share of right labels of a labelling model, per target and for all together; () for other models."""
    if not isinstance(model, Labeller) or authentic.schema.size(model.targets) > JOINT_LABELS:
        return ()
    schema, targets = model.schema, model.targets
    if not set(targets) <= set(authentic.columns):
        return ()
    shape = [schema[t].size for t in targets]
    subsets = _subsets(targets)
    rights = np.zeros(len(subsets))
    public = [n for n in authentic.names if n not in targets]
    for start in range(0, len(authentic), ROWS_AT_ONCE):
        part = authentic.take(slice(start, start + ROWS_AT_ONCE))
        rows = Codes(schema, part.project(public).columns, len(part))
        p = model.probabilities(rows).reshape(len(part), *shape)
        for i, names in enumerate(subsets):
            others = tuple(1 + j for j, t in enumerate(targets) if t not in names)
            rights[i] += p.sum(axis=others)[(np.arange(len(part)), *(part[t] for t in names))].sum()
    shares = (rights / max(1, len(authentic))).tolist()
    return tuple(
        Correct(" and ".join(names), share, _by_chance(authentic, authentic, names))
        for names, share in zip(subsets, shares, strict=True)
    )


def join_by_identifier(
    authentic: Source,
    authentic_codes: Codes,
    third: Source,
    labelled: pa.Table,
    schema: Schema,
    on: Sequence[str],
    targets: Sequence[str],
) -> Matched:
    """Join a third file with the authentic rows by an identifier, and compare its labels.

    Sources are read for the identifier; `authentic_codes` and `labelled` are the same rows in the same order, none left out.

    Privacy
    -------
    Reads private rows and identifiers; the result is an exact statistic of them: confidential.
    """
    left, right = _keys(authentic, on), _keys(third, on)
    if len(left) != len(authentic_codes) or len(right) != labelled.num_rows:
        raise UsageError(
            "match_on needs every authentic row and every row of the third file; rows were left out or changed while reading"
        )
    once = _single(left)
    at = pc.index_in(right, once)
    fine = pc.and_(pc.is_valid(at), pc.is_in(right, _single(right)))
    known = pc.is_in(right, pc.unique(left).drop_null())
    ambiguous = pc.and_(known, pc.invert(fine)).to_numpy(zero_copy_only=False)
    fine = fine.to_numpy(zero_copy_only=False)
    position = pc.index_in(once, left).to_numpy(zero_copy_only=False)
    rows = position[at.to_numpy(zero_copy_only=False)[fine].astype(np.int64)].astype(np.int64)
    synthetic = released_codes(labelled, comparable(schema, targets), targets).take(fine)
    truth = authentic_codes.project(targets).take(rows)
    correct = []
    for names in _subsets(targets):
        equal = np.all([truth[t] == synthetic[t] for t in names], axis=0)
        correct.append(Correct(" and ".join(names), mean(equal), _by_chance(truth, synthetic, names)))
    return Matched(tuple(on), len(right), mean(fine), mean(ambiguous), tuple(correct))


def _subsets(targets: Sequence[str]) -> list[tuple[str, ...]]:
    """Each target, and all together where there are several."""
    single: list[tuple[str, ...]] = [(t,) for t in targets]
    return [*single, tuple(targets)] if len(targets) > 1 else single


def _keys(source: Source, on: Sequence[str]) -> pa.Array:
    """The identifier of every row as one text; null where a part of it is missing."""
    missing = [name for name in on if name not in source.columns]
    if missing:
        raise SourceError(
            f"{source.describe()}: no column '{missing[0]}' to match on; it has: {', '.join(source.columns)}"
        )
    parts = []
    for batch in source.batches(list(on)):
        columns = [batch.column(name) for name in on]
        plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
        wide = [texts(c).cast(pa.large_string()) for c in plain]
        parts.append(pc.binary_join_element_wise(*wide, pa.scalar("\x1f", pa.large_string())))
    return pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())


def _single(keys: pa.Array) -> pa.Array:
    """The keys that occur exactly once."""
    counted = pc.value_counts(keys.drop_null())
    return pc.filter(counted.field("values"), pc.equal(counted.field("counts"), 1))


def _by_chance(truth: Codes, drawn: Codes, names: Sequence[str]) -> float:
    """Agreement of labels drawn from the marginal, regardless of the row: Σ p·q."""
    cells = Marginal.of(truth.schema, names)
    p, q = (np.bincount(cells.index(c), minlength=cells.size) / max(1, len(c)) for c in (truth, drawn))
    return float(p @ q)
