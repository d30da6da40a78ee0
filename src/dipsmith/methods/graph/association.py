"""Association: how much a column has to do with a set of others, the scores by which networks are built.

Two scores of a column X and its parents Π, with counts c, row sums c_X and c_Π and n rows:

*association*, n·R = ½ ‖c − c_X c_Πᵀ/n‖₁, in rows: what independence gets wrong;
*mutual information*, I(X; Π), in bits (Zhang, Cormode, Procopiuc, Srivastava and Xiao, "PrivBayes:
private data release via Bayesian networks", TODS 42, 2017, sections 4.2 and 5.1).

Privacy
-------
*Association.* Adding a row (a, b) to n rows with relative frequencies p of X and q of Π changes the matrix
D = c − c_X c_Πᵀ/n by exactly n/(n+1) · (e_a − p)(e_b − q)ᵀ, whose L1 norm is at most
4n/(n+1) < 4: sensitivity below 2. Replacing a row changes D by (n−1)/n · (e_a e_bᵀ − e_a′ e_b′ᵀ −
(e_a − e_a′) qᵀ − p (e_b − e_b′)ᵀ) with p, q of the other rows, L1 norm below 6: sensitivity below 3. k rows
per unit multiply both. Neither depends on n, so that the score may be used where n is private.

*Mutual information.* Under `replace` with a public n the sensitivity is that of the paper's lemma 1. Under
add-remove it depends on a private n: refused. ``docs/proofs/privbayes.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log2
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UnsupportedError
from dipsmith.methods.graph.junction import Array, Attributes
from dipsmith.privacy.score import Score
from dipsmith.schema import Marginal, Schema

Family = tuple[str, Attributes]
"""A column and its parents."""


def table_of(schema: Schema, family: Family) -> Marginal:
    """The marginal of a family, its attributes in the order of the schema, so that families share tables."""
    return Marginal.of(schema, tuple(n for n in schema.names if n == family[0] or n in family[1]))


@dataclass(frozen=True, eq=False)
class Association(Score[Family]):
    """n·R: half the L1 distance between a table's counts and those of independence, less a public cost in rows."""

    schema: Schema
    cost: Mapping[Family, float] = field(default_factory=dict)

    name: ClassVar[str] = "association"

    def tables(self, candidate: Family) -> Sequence[Marginal]:
        """The family's marginal."""
        return [table_of(self.schema, candidate)] if candidate[1] else []

    def value(self, candidate: Family, counts: Sequence[NDArray[np.int64]]) -> float:
        """How many rows independence puts in the wrong cell, less the cost."""
        misplaced = 0.0
        if candidate[1] and counts[0].any():
            table = _column_first(self.schema, candidate, counts[0])
            table -= np.multiply.outer(table.sum(axis=1), table.sum(axis=0) / float(table.sum()))
            misplaced = float(np.abs(table, out=table).sum()) / 2
        return misplaced - self.cost.get(candidate, 0.0)

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """2 per row added or removed, 3 per row replaced."""
        return Fraction((2 if relation == "add-remove" else 3) * max_rows)


@dataclass(frozen=True, eq=False)
class MutualInformation(Score[Family]):
    """I(X; Π) in bits, for a public number of rows."""

    schema: Schema
    rows: int

    name: ClassVar[str] = "mutual information"

    def tables(self, candidate: Family) -> Sequence[Marginal]:
        """The family's marginal."""
        return [table_of(self.schema, candidate)] if candidate[1] else []

    def value(self, candidate: Family, counts: Sequence[NDArray[np.int64]]) -> float:
        """I(X; Π) of the counts."""
        if not candidate[1]:
            return 0.0
        return mutual_information(_column_first(self.schema, candidate, counts[0]))

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """By the paper's lemma 1, rounded up; only where n is public and one row is one unit."""
        # Persons in households are priced as under replace, and their number of lines is not public for that.
        if relation != "replace" or self.schema.neighbours != "replace" or max_rows != 1:
            raise UnsupportedError(
                "mutual information needs neighbours 'replace' and one row per unit, because its sensitivity "
                f"depends on a public number of rows; got '{relation}' with {max_rows}: use score='association'"
            )
        return Fraction(information_sensitivity(self.rows, binary=False)) * (1 + Fraction(1, 10**12))


def mutual_information(table: Array) -> float:
    """I of the two axes of a table of counts, in bits; 0 for an empty table.

    >>> mutual_information(np.array([[2.0, 0.0], [0.0, 2.0]]))
    1.0
    """
    rows = table.sum()
    some = table > 0
    outer = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    return float((table[some] * np.log2(table[some] * rows / outer[some])).sum() / rows) if rows > 0 else 0.0


def information_sensitivity(rows: int, *, binary: bool) -> float:
    """How far replacing one of n rows can move the mutual information, in bits.

    Exact when X or Π has two values; else exact for odd n and an upper bound for even n.

    >>> round(information_sensitivity(8, binary=True), 5), round(information_sensitivity(5, binary=False), 5)
    (0.54356, 1.10196)
    """
    n = max(rows, 2)
    if binary:
        return log2(n) / n + (n - 1) / n * log2(n / (n - 1))
    return 2 / n * log2((n + 1) / 2) + (n - 1) / n * log2((n + 1) / (n - 1))


def _column_first(schema: Schema, family: Family, counts: NDArray[np.int64]) -> Array:
    """The table as a matrix: the column's values × all combinations of its parents'."""
    table = table_of(schema, family)
    turned = np.moveaxis(counts.reshape(table.shape), table.attributes.index(family[0]), 0)
    return turned.reshape(len(turned), -1).astype(float)
