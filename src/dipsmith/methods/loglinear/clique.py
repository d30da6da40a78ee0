"""A clique of a conditional log-linear model: some public attributes with some private ones.

It names the table to measure, and turns public rows into the `LabelTerm` of a `PublicDesign`. Joint labels are
numbered over all targets in the schema's order, the last one varying fastest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.estimation.lawful import label_codes, meets
from dipsmith.methods.loglinear.public_design import LabelTerm
from dipsmith.methods.loglinear.softmax import BarredLabels
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.codes import code_dtype


@dataclass(frozen=True)
class Clique:
    """One table: some public attributes (none for a label marginal) × some targets."""

    predictors: tuple[str, ...]
    targets: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, attributes: Sequence[str]) -> Clique:
        """The clique of some attributes, divided by their roles."""
        public = tuple(n for n in attributes if schema[n].role == "public")
        return cls(public, tuple(n for n in attributes if n not in public))

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

    def labels(self, schema: Schema) -> int:
        """Number of labels of its targets."""
        return schema.size(self.targets)

    def effects(self, schema: Schema) -> int:
        """Number of free effects."""
        return schema.size(self.predictors) * (self.labels(schema) - 1)

    def term(self, rows: Codes, targets: Sequence[str]) -> LabelTerm:
        """The clique as seen by distinct public rows, in a model of `targets`."""
        schema = rows.schema
        return LabelTerm(
            cell=self.groups(schema).index(rows).astype(code_dtype(schema.size(self.predictors))),
            cells=schema.size(self.predictors),
            of_label=self.of_label(schema, targets),
            labels=self.labels(schema),
        )

    def of_label(self, schema: Schema, targets: Sequence[str]) -> Ints:
        """The label within this clique of every joint label of `targets`."""
        joint = label_codes(schema, targets)
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


def barred_labels(rows: Codes, targets: Sequence[str]) -> tuple[BarredLabels, ...]:
    """The joint labels that rules forbid, and for which rows.

    A rule that names a private attribute besides the targets says nothing here: that attribute is not made.
    """
    schema = rows.schema
    joint = label_codes(schema, targets)
    given = {n: c for n, c in rows.columns.items() if n not in joint}
    found = []
    for rule in schema.rules:
        private = {n for n in rule.attributes if schema[n].role == "private"}
        if private and private <= set(targets):
            labels = meets(rule, joint, schema.size(targets))
            found.append(BarredLabels(meets(rule, given, len(rows)), labels))
    return tuple(found)
