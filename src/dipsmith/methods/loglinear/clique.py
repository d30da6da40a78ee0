"""A clique of a conditional log-linear model: some public attributes with some private ones.

It names the table to measure, and turns public rows into the `Term` of a `Design`. Joint labels are
numbered over all targets in the schema's order, the last one varying fastest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.methods.loglinear.public_design import Barred, Term
from dipsmith.schema import Codes, Marginal, Schema


@dataclass(frozen=True)
class Clique:
    """One table: some public attributes (none for a label marginal) × some targets."""

    predictors: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Public attributes first, so that the table's group sizes are public."""
        return (*self.predictors, *self.targets)

    def marginal(self, schema: Schema) -> Marginal:
        """The table to measure."""
        return Marginal.of(schema, self.attributes)

    def groups(self, schema: Schema) -> Marginal:
        """The public cells."""
        return Marginal.of(schema, self.predictors)

    def cells(self, schema: Schema) -> int:
        """Number of public cells."""
        return schema.size(self.predictors)

    def labels(self, schema: Schema) -> int:
        """Number of labels of its targets."""
        return schema.size(self.targets)

    def term(self, rows: Codes, targets: Sequence[str]) -> Term:
        """The clique as seen by distinct public rows, in a model of `targets`."""
        schema = rows.schema
        return Term(
            cell=self.groups(schema).index(rows).astype(np.int32),
            cells=self.cells(schema),
            of_label=self.of_label(schema, targets),
            labels=self.labels(schema),
        )

    def of_label(self, schema: Schema, targets: Sequence[str]) -> NDArray[np.int64]:
        """The label within this clique of every joint label of `targets`."""
        sizes = [schema[t].size for t in targets]
        joint = dict(zip(targets, np.unravel_index(np.arange(schema.size(targets)), sizes), strict=True))
        label = np.zeros(schema.size(targets), dtype=np.int64)
        for name in self.targets:
            label = label * schema[name].size + joint[name]
        return label

    def __str__(self) -> str:
        return " × ".join(self.attributes)


def needed_columns(schema: Schema, targets: Sequence[str], predictors: Collection[str]) -> tuple[str, ...]:
    """The public columns that decide a label: predictors, and what rules about the targets name."""
    named = {n for r in schema.rules if set(r.attributes) & set(targets) for n in r.attributes}
    return tuple(n for n in schema.public if n in predictors or n in named)


def bars(rows: Codes, targets: Sequence[str]) -> tuple[Barred, ...]:
    """The joint labels that rules forbid, and for which rows.

    A rule that names a private attribute besides the targets says nothing here: that attribute is not made.
    """
    schema = rows.schema
    sizes = {a.name: a.size for a in schema}
    shape = [sizes[t] for t in targets]
    joint = dict(zip(targets, np.unravel_index(np.arange(schema.size(targets)), shape), strict=True))
    found = []
    for rule in schema.rules:
        private = [n for n in rule.attributes if schema[n].role == "private"]
        if not private or not set(private) <= set(targets):
            continue
        labels = np.ones(schema.size(targets), dtype=bool)
        concerned = np.ones(len(rows), dtype=bool)
        for name, codes in rule.never:
            hit = np.zeros(sizes[name], dtype=bool)
            hit[list(codes)] = True
            if name in joint:
                labels &= hit[joint[name]]
            else:
                concerned &= hit[rows[name]]
        found.append(Barred(concerned, labels))
    return tuple(found)
