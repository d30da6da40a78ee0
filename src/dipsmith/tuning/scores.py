"""Scores of fitted models that are themselves differentially private: by which settings may be compared.

A score asks a curator about the private rows, spends that curator's whole budget, and returns a number,
higher is better. It is part of what a private selection runs and pays for (`private_selection`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import log
from typing import ClassVar, Final, Protocol

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.method import Labeller, Model
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Cells, Codes, Marginal, Schema

LEAST_DRAWN, MOST_DRAWN = 50_000, 200_000
"""Rows that are drawn from a model to see its marginals, as many as the table has within these bounds."""
ALL_PAIRS: Final = 5
"""Up to so many columns a model is judged by all pairs, beyond by each column with the next."""


class ModelScore(Protocol):
    """A private number that says how good a model is."""

    @property
    def name(self) -> str:
        """The name that the ledger and the card show."""

    def of(self, model: Model, curator: Curator) -> float:
        """The score, higher is better; spends the curator's budget."""


@dataclass(frozen=True)
class LogLoss:
    """How well a labeller predicts the private labels: minus the mean log loss.

    The largest loss of a row is `clip` nats (default: log of the number of labels, plus 2), and losses are rounded to
    `levels` values from 0 to that.

    Privacy
    -------
    The rows are counted by the level of their loss, a partition that the model and the row decide: one
    `Curator.measure`. With n rows, k per unit and ε, the noise of the mean loss has a standard deviation of
    about clip·√(levels/12)·√2·Δ/(nε), Δ = 2k under `replace` and `label`.
    """

    clip: float | None = None
    levels: int = 8
    name: ClassVar[str] = "log loss"

    def __post_init__(self) -> None:
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise UsageError(f"log loss: clip is {self.clip}, expected a number of nats above 0")
        if not 2 <= self.levels <= 1000:
            raise UsageError(f"log loss: levels is {self.levels}, expected 2 to 1,000")

    def of(self, model: Model, curator: Curator) -> float:
        """Minus the noisy mean loss."""
        if not isinstance(model, Labeller):
            raise UnsupportedError("log loss is for models that label rows; use MarginalFit for whole tables")
        clip = log(curator.schema.size(model.targets)) + 2 if self.clip is None else self.clip
        losses = LossLevels(model, clip, self.levels)
        counts = curator.measure([losses], [curator.budget])[0].values.astype(np.float64)
        values = np.linspace(0, clip, self.levels)
        rows = float(curator.rows) if curator.rows is not None else max(float(counts.sum()), 1.0)
        # Counts are moved to add up to the rows: values count from their middle, which lowers the noise.
        counts += (rows - counts.sum()) / self.levels
        return -float(values @ counts) / max(rows, 1.0)


@dataclass(frozen=True, eq=False)
class LossLevels(Cells):
    """Rows by the loss that a labeller's probabilities give them, rounded to levels.

    A loss between two levels goes to the upper one with a probability that keeps its mean, decided by a hash
    of the row: the cell is a function of the row and the model alone.
    """

    model: Labeller
    clip: float
    levels: int

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.model.schema

    @property
    def attributes(self) -> tuple[str, ...]:
        """What decides the loss: the columns that the model is given, and its targets."""
        decide = {*_inputs_of(self.model), *self.model.targets}
        return tuple(n for n in self.schema.names if n in decide)

    @property
    def size(self) -> int:
        """Number of levels."""
        return self.levels

    @property
    def key(self) -> str:
        """The same for every model: nothing about the model is in an event."""
        return f"log loss of {' × '.join(self.model.targets)} in {self.levels} levels"

    def index(self, codes: Codes) -> Ints:
        """The level of every row."""
        chance = np.maximum(label_chances(self.model, codes), np.exp(-self.clip))
        place = -np.log(chance) * (self.levels - 1) / self.clip
        level = np.floor(place + _dither(codes, self.attributes)).astype(np.int64)
        return np.clip(level, 0, self.levels - 1)


def label_chances(model: Labeller, rows: Codes) -> Floats:
    """The probability that a model gives to the labels that rows have."""
    p = model.probabilities(rows.project(_inputs_of(model)))
    label = Marginal.of(model.schema, model.targets).index(rows)
    return np.asarray(p[np.arange(len(rows)), label])


def _inputs_of(model: Labeller) -> tuple[str, ...]:
    """The columns that a labeller is given."""
    names = model.schema.public if model.schema.neighbours == "label" else model.schema.names
    return tuple(n for n in names if n not in model.targets)


@dataclass(frozen=True)
class MarginalFit:
    """How near a model's marginals are to the private ones: minus the squared distance, less the noise's own part.

    `tables` are the groups of columns whose marginals count. Default: under `label` every public column with the
    targets; otherwise all pairs of up to five columns, of more columns each with the next one.

    Privacy
    -------
    One `Curator.measure` of all tables, which share the budget equally; the rest is post-processing.
    """

    tables: Sequence[Sequence[str]] | None = None
    name: ClassVar[str] = "fit of marginals"

    def __post_init__(self) -> None:
        if self.tables is not None:
            object.__setattr__(self, "tables", tuple(tuple(t) for t in self.tables))

    def of(self, model: Model, curator: Curator) -> float:
        """Minus an unbiased estimate of Σ (count − expected count)² / rows²."""
        marginals = [Marginal.of(curator.schema, t) for t in self._tables(model, curator)]
        measured = curator.measure(marginals, list(curator.budget.split(len(marginals))))
        counted = float(np.median([m.values.sum() for m in measured]))
        n = max(counted, 1.0) if curator.rows is None else float(curator.rows)
        off = 0.0
        for m, expected in zip(measured, _expected_counts(model, curator, marginals, n), strict=True):
            noisy = np.ones(len(expected), dtype=bool) if m.noisy is None else m.noisy
            off += float(((m.values - expected) ** 2).sum()) - float(noisy.sum()) * m.variance
        return -off / max(n, 1.0) ** 2

    def _tables(self, model: Model, curator: Curator) -> list[tuple[str, ...]]:
        schema = curator.schema
        if self.tables is not None:
            return [tuple(t) for t in self.tables]
        if curator.relation == "label" and isinstance(model, Labeller):
            public = [n for n in schema.public if n not in model.targets]
            return [(n, *model.targets) for n in public] or [tuple(model.targets)]
        names = schema.names
        if len(names) == 1:
            return [names]
        return list(combinations(names, 2) if len(names) <= ALL_PAIRS else pairwise(names))


def _expected_counts(model: Model, curator: Curator, marginals: Sequence[Marginal], rows: float) -> list[Floats]:
    """The model's expected counts: exactly for given public rows, from a large sample otherwise."""
    if not (curator.relation == "label" and isinstance(model, Labeller)):
        size = int(min(max(rows, LEAST_DRAWN), MOST_DRAWN))
        drawn = model.sample(size, int(curator.coins("sample to score").integers(1 << 62)))
        return [np.bincount(m.index(drawn), minlength=m.size).astype(np.float64) * rows / size for m in marginals]
    schema, targets = curator.schema, model.targets
    codes, often = curator.public_rows([n for n in schema.public if n not in targets])
    p = model.probabilities(codes) * often[:, None]
    grid = np.unravel_index(np.arange(p.shape[1]), [schema[t].size for t in targets])
    tables = []
    for m in marginals:
        table = np.zeros(m.size)
        for j in range(p.shape[1]):
            fixed = {t: np.full(len(codes), c[j]) for t, c in zip(targets, grid, strict=True)}
            cell = m.index(Codes.of(schema, {**codes.columns, **fixed}, len(codes)))
            table += np.bincount(cell, weights=p[:, j], minlength=m.size)
        tables.append(table)
    return tables


def _dither(codes: Codes, names: Sequence[str]) -> Floats:
    """A number in [0, 1) for every row, a function of the row that looks random (Weyl's multipliers)."""
    mixed = np.full(len(codes), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for name in names:
        mixed ^= codes[name].astype(np.uint64) + np.uint64(1)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)
