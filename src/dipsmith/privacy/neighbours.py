"""Neighbouring tables: what the ε is about, and how far one unit of protection moves counts.

Two tables are neighbours when they differ in one unit, which owns at most k = `max_rows` rows:

============  ==================================================================  =====  =====
relation      meaning                                                             Δ₁     Δ₂²
============  ==================================================================  =====  =====
`add-remove`  one unit is added or removed                                        k      k²
`replace`     one unit's rows are changed arbitrarily, the number of units fixed  2k     2k²
`label`       only the private columns of one unit's rows change                  2k     2k²
============  ==================================================================  =====  =====

for the counts of a partition of the rows (a histogram, the leaves of a tree). Under `label`, when
the rows fall into public groups with two labels each and only one of the two counts is released, a
changed label moves one count by one: Δ₁ = k and Δ₂² = k². Proofs: ``docs/proofs/accounting.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.schema.schema import Neighbours, Schema

BlocksRule = Literal["maximum", "two-dearest", "sum"]

RELATIONS: tuple[str, ...] = get_args(Neighbours)


def check_relation(relation: str) -> str:
    """The relation itself, if there is a proof for it."""
    if relation not in RELATIONS:
        raise UsageError(f"neighbours '{relation}' is unknown: expected one of {', '.join(RELATIONS)}")
    return relation


def l1(relation: str, max_rows: int, single_count: bool = False) -> int:
    """Δ₁: the largest sum of absolute changes of a partition's counts.

    With `single_count`, of the two labels of each public group only one count is released. It lowers the sensitivity under
    `label` only: elsewhere a row may leave one group and enter another.

    >>> l1("add-remove", 1), l1("replace", 3), l1("label", 3), l1("label", 3, single_count=True)
    (1, 6, 6, 3)
    """
    k = _rows_per_unit(max_rows)
    return k if _moves_one_count(relation, single_count) else 2 * k


def l2_squared(relation: str, max_rows: int, single_count: bool = False) -> int:
    """Δ₂²: the largest sum of squared changes of a partition's counts; parameters as for `l1`.

    >>> l2_squared("add-remove", 3), l2_squared("replace", 3), l2_squared("label", 3, single_count=True)
    (9, 18, 9)
    """
    k = _rows_per_unit(max_rows)
    return k * k if _moves_one_count(relation, single_count) else 2 * k * k


def unit_recurs(max_rows: int, per: str | None, attribute: str) -> bool:
    """Whether the rows of one unit may lie in several blocks of a partition by `attribute`.

    >>> unit_recurs(4, None, "year"), unit_recurs(4, "year", "year"), unit_recurs(1, None, "year")
    (True, False, False)
    """
    return _rows_per_unit(max_rows) > 1 and attribute != per


def blocks_rule(relation: str, attribute_public: bool, unit_recurs_across_blocks: bool) -> BlocksRule:
    """How the costs of disjoint blocks compose when the rows are partitioned by an attribute.

    `maximum`
        A unit lies in one block, in both tables the same one.
    `two-dearest`
        A unit may leave one block and enter another, or change within its block. Each block answers
        at its add-remove sensitivity, and the cost is twice the dearest block's.
    `sum`
        The rows of one unit may lie in every block.

    >>> blocks_rule("add-remove", False, False), blocks_rule("replace", True, False)
    ('maximum', 'two-dearest')
    >>> blocks_rule("label", True, False), blocks_rule("label", False, False)
    ('maximum', 'two-dearest')
    """
    check_relation(relation)
    if unit_recurs_across_blocks:
        return "sum"
    if relation == "add-remove" or (relation == "label" and attribute_public):
        return "maximum"
    return "two-dearest"


def blocks_relation(relation: str, attribute_public: bool, unit_recurs_across_blocks: bool) -> Neighbours:
    """The relation under which each block must answer, given the relation of the whole table.

    Inside a block that private values define, not even the number of rows is public: `label` becomes
    `add-remove` (one unit enters or leaves) or, where units recur, `replace` (some of a unit's rows
    are exchanged for others).

    >>> blocks_relation("label", False, False), blocks_relation("label", False, True)
    ('add-remove', 'replace')
    >>> blocks_relation("label", True, True), blocks_relation("replace", True, False)
    ('label', 'add-remove')
    """
    rule = blocks_rule(relation, attribute_public, unit_recurs_across_blocks)
    if relation == "add-remove" or rule == "two-dearest":
        return "add-remove"
    return "label" if relation == "label" and attribute_public else "replace"


def refuse_private(schema: Schema, relation: str, attributes: Sequence[str], verb: str) -> None:
    """Refuse to answer freely of columns that the relation does not make public."""
    if relation != "label":
        only = f"{verb} is free only under neighbours 'label', where public columns are declared"
        raise UnsupportedError(f"{only}; this schema has '{relation}': measure them instead")
    private = [n for n in attributes if schema[n].role != "public"]
    if private:
        raise UnsupportedError(f"{verb}: column '{private[0]}' is private; measure it instead")


def _moves_one_count(relation: str, single_count: bool) -> bool:
    check_relation(relation)
    return relation == "add-remove" or (relation == "label" and single_count)


def _rows_per_unit(max_rows: int) -> int:
    if isinstance(max_rows, bool) or max_rows < 1:
        raise UnsupportedError(f"max_rows must be 1 or more, got {max_rows}")
    return max_rows
