"""Sensitivities and block rules against every pair of neighbouring tables of a small world."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product

import pytest

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.neighbours import (
    RELATIONS,
    blocks_relation,
    blocks_rule,
    check_relation,
    l1,
    l2_squared,
    unit_recurs,
)

GROUPS, LABELS = (0, 1), ("x", "y")
CELLS = list(product(GROUPS, LABELS))
TWO_PRIVATE = list(product(GROUPS, LABELS, LABELS))


def bags(cells, max_rows):
    """Every collection of rows that one unit may own; a row is (public group, private label, ...)."""
    for size in range(max_rows + 1):
        yield from combinations_with_replacement(cells, size)


def neighbouring_units(relation, max_rows, cells):
    """One unit's rows in both tables; all other rows are the same and cancel."""
    if relation == "add-remove":
        for rows in bags(cells, max_rows):
            yield rows, ()
            yield (), rows
    elif relation == "replace":
        yield from product(bags(cells, max_rows), repeat=2)
    else:
        for rows in bags(cells, max_rows):
            for others in product(cells, repeat=len(rows)):
                if [r[0] for r in rows] == [o[0] for o in others]:
                    yield rows, others


def changes(before, after, cells):
    a, b = Counter(before), Counter(after)
    return [a[c] - b[c] for c in cells]


def worst_loss(relation, max_rows, place, rate):
    """Exact privacy loss of Laplace counts: the sum of the block's rate × |change| over the cells."""
    return max(
        sum(rate[cell[place]] * abs(x) for cell, x in zip(TWO_PRIVATE, changes(a, b, TWO_PRIVATE), strict=True))
        for a, b in neighbouring_units(relation, max_rows, TWO_PRIVATE)
    )


@pytest.mark.parametrize("max_rows", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_are_what_the_worst_neighbours_do(relation, max_rows):
    moved = [changes(a, b, CELLS) for a, b in neighbouring_units(relation, max_rows, CELLS)]
    assert max(sum(map(abs, m)) for m in moved) == l1(relation, max_rows)
    assert max(sum(x * x for x in m) for m in moved) == l2_squared(relation, max_rows)


@pytest.mark.parametrize("max_rows", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_count_per_public_group(relation, max_rows):
    """Only the counts of label y are released, one per group."""
    cells = [(g, "y") for g in GROUPS]
    moved = [changes(a, b, cells) for a, b in neighbouring_units(relation, max_rows, CELLS)]
    assert max(sum(map(abs, m)) for m in moved) == l1(relation, max_rows, single_count=True)
    assert max(sum(x * x for x in m) for m in moved) == l2_squared(relation, max_rows, single_count=True)


@pytest.mark.parametrize("attribute_public", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 0.1), (0.3, 0.9)])
def test_block_rules_cover_the_worst_neighbours_and_are_tight(relation, attribute_public, costs):
    """A block that costs ε draws at the rate ε/Δ₁ of the relation that holds inside it."""
    place = 0 if attribute_public else 1
    levels = GROUPS if attribute_public else LABELS
    inner = blocks_relation(relation, attribute_public, unit_recurs_across_blocks=False)
    rate = dict(zip(levels, (c / l1(inner, 1) for c in costs), strict=True))
    loss = worst_loss(relation, 1, place, rate)
    rule = blocks_rule(relation, attribute_public, unit_recurs_across_blocks=False)
    charged = {"maximum": max(costs), "two-dearest": 2 * max(costs)}[rule]
    assert loss == pytest.approx(charged)


@pytest.mark.parametrize("attribute_public", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 0.1)])
def test_units_that_recur_are_covered_by_the_sum(relation, attribute_public, costs):
    max_rows = 2
    place = 0 if attribute_public else 1
    levels = GROUPS if attribute_public else LABELS
    assert blocks_rule(relation, attribute_public, unit_recurs_across_blocks=True) == "sum"
    inner = blocks_relation(relation, attribute_public, unit_recurs_across_blocks=True)
    rate = dict(zip(levels, (c / l1(inner, max_rows) for c in costs), strict=True))
    loss = worst_loss(relation, max_rows, place, rate)
    assert loss <= sum(costs) + 1e-12


def test_block_sizes_are_public_only_in_public_blocks_under_label():
    assert blocks_relation("label", True, False) == "label"
    for relation, public, recurs in product(RELATIONS, (True, False), (True, False)):
        if (relation, public) != ("label", True):
            assert blocks_relation(relation, public, recurs) != "label"


def test_a_person_recurs_over_years_and_a_person_year_does_not():
    assert unit_recurs(4, None, "year")
    assert unit_recurs(2, "year", "agency")
    assert not unit_recurs(2, "year", "year")
    assert not unit_recurs(1, "year", "agency")


@pytest.mark.parametrize("relation", ["", "Replace", "bounded", "add_remove"])
def test_unknown_relations_are_refused(relation):
    for ask in (check_relation, lambda r: l1(r, 1), lambda r: blocks_rule(r, True, True)):
        with pytest.raises(UsageError, match="add-remove, replace, label"):
            ask(relation)


@pytest.mark.parametrize("max_rows", [0, -1, True])
def test_a_unit_owns_at_least_one_row(max_rows):
    with pytest.raises(UnsupportedError, match="max_rows"):
        l1("replace", max_rows)
