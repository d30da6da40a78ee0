"""Scores for choosing what divides the rows: their sensitivities, by brute force over all small tables."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import inf, lgamma, log

import numpy as np
import pytest

from dipsmith.errors import UnsupportedError
from dipsmith.methods.hierarchy.importance import (
    Contrast,
    InformationCriterion,
    MisplacedRows,
    information_criterion,
    log_factorial_excess,
)
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit
from selection_law import selection_probabilities


def aic(counts, levels=None):
    """AIC from its definition, with any number of levels in the penalty."""
    n = sum(counts)
    likelihood = lgamma(n + 1) - sum(lgamma(c + 1) for c in counts) + sum(c * log(c / n) for c in counts if c)
    return -2 * likelihood + 2 * (len(counts) if levels is None else levels)


def observed(counts):
    return aic(counts, sum(c > 0 for c in counts))


def g(x):
    return (x - 1) * log(x / (x - 1)) if x > 1 else 0.0


def tables(levels, most):
    """All tables of counts with so many levels and 2 … most rows (up to the order of the levels)."""
    for counts in product(range(most + 1), repeat=levels - 1):
        if list(counts) == sorted(counts):
            for last in range(counts[-1] if counts else 0, most - sum(counts) + 1):
                if sum(counts) + last >= 2:
                    yield (*counts, last)


def schema_of(relation="add-remove", **sizes):
    listed = {name: Categories.of([str(i) for i in range(k)], other="0") for name, k in sizes.items()}
    return Schema("t", tuple(Attribute(n, "string", d) for n, d in listed.items()), Unit("person", 1), relation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "most", "public", "data_dependent"),
    [(2, 200, 1.9950, 3.9950), (3, 40, 1.9748, 3.9748), (4, 18, 1.9434, 3.9434)],
)
def test_aic_moves_by_less_than_two_with_public_levels_and_four_with_observed_ones(
    levels, most, public, data_dependent
):
    largest, smallest, largest_observed = 0.0, inf, 0.0
    for counts in tables(levels, most):
        for j, c in enumerate(counts):
            if c:
                fewer = (*counts[:j], c - 1, *counts[j + 1 :])
                change = aic(counts) - aic(fewer)
                assert change == pytest.approx(2 * (g(sum(counts)) - g(c)), abs=1e-9)
                largest, smallest = max(largest, change), min(smallest, change)
                largest_observed = max(largest_observed, observed(counts) - observed(fewer))
    assert round(largest, 4) == public
    assert largest == pytest.approx(2 * g(most), abs=1e-9)
    assert smallest >= -1e-9  # monotone: a record never lowers an AIC
    assert round(largest_observed, 4) == data_dependent


@pytest.mark.parametrize(("levels", "most"), [(2, 60), (3, 20)])
def test_a_changed_record_moves_aic_by_less_than_two_either_way(levels, most):
    changes = [
        aic(tuple(x - (i == a) + (i == b) for i, x in enumerate(c))) - aic(c)
        for c in tables(levels, most)
        for a, b in product(range(levels), repeat=2)
        if c[a] and a != b
    ]
    assert -2 < min(changes) < -1.8
    assert 1.8 < max(changes) < 2


def test_the_criterion_is_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 10 ** rng.integers(1, 7), (rng.integers(1, 4), rng.integers(2, 9)))
        expected = sum(aic(node.tolist()) for node in counts)
        assert information_criterion(counts) == pytest.approx(expected, rel=1e-9, abs=1e-6)
    exact = [float(log_factorial_excess(np.array([x]))[0]) for x in (15, 16, 1000)]
    assert exact == pytest.approx([lgamma(x + 1) - x * log(x) + x for x in (15, 16, 1000)], abs=1e-12)


def test_the_criterion_is_accurate_enough_for_its_grid_with_many_rows():
    """Scores must be within half a grid step, sensitivity/2048, of the exact value: also for 1e12 rows."""
    n, j = 10**12, 10**3
    before = information_criterion(np.array([[n - j, j]]))
    after = information_criterion(np.array([[n - j, j - 1]]))
    assert before - after == pytest.approx(2 * (1 - 1 / (2 * n) - g(j)), abs=1e-9)


def scores_of(score, schema, cells, candidates):
    """The scores of a table given as counts of the joint cells."""
    rows = np.repeat(np.arange(len(cells)), cells)
    shape = tuple(a.size for a in schema)
    codes = Codes.of(schema, dict(zip(schema.names, np.unravel_index(rows, shape), strict=True)), len(rows))
    values = []
    for candidate in candidates:
        counted = [np.bincount(t.index(codes), minlength=t.size) for t in score.tables(candidate)]
        values.append(score.value(candidate, counted))
    return np.array(values)


def neighbours_of(cells, relation):
    filled = [i for i, c in enumerate(cells) if c]
    changes = [(i, j) for i in filled for j in range(len(cells)) if i != j]
    if relation == "add-remove":
        changes = [(i, None) for i in filled]
    for leaves, enters in changes:
        yield tuple(c - (i == leaves) + (i == enters) for i, c in enumerate(cells))


def joint_tables(cells, rows):
    for chosen in combinations_with_replacement(range(cells), rows):
        yield tuple(chosen.count(i) for i in range(cells))


def loss(one, other):
    return max(abs(float((p / q).ln())) for p, q in zip(one, other, strict=True))


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("law", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize("kind", ["aic", "bic", "marginal-error", "contrast"])
def test_privacy_loss_of_choices_by_enumeration(relation, law, kind):
    """All neighbours of all tables of 1 … 4 rows over 2 × 3 cells: the loss of the choice is at most ε."""
    schema = schema_of(relation, a=2, b=3)
    candidates = [("a",), ("b",)]
    criterion = InformationCriterion(schema)
    score = {
        "aic": criterion,
        "bic": InformationCriterion(schema, penalty=log(5), name="bic"),
        "marginal-error": MisplacedRows(schema, {("a",): 0.4, ("b",): 0.6}),
        "contrast": Contrast(criterion, ("a", "b")),
    }[kind]
    epsilon = Fraction(1)
    settings = {"monotone": score.monotone(relation), "law": law, "digits": 20}
    known = {}

    def chances(cells):
        if cells not in known:
            values = scores_of(score, schema, cells, candidates)
            known[cells] = selection_probabilities(values, score.sensitivity(relation, 1), epsilon, **settings)
        return known[cells]

    worst = max(
        loss(chances(cells), chances(other))
        for rows in range(1, 5)
        for cells in joint_tables(6, rows)
        for other in neighbours_of(cells, relation)
    )
    assert worst <= 1.0
    assert worst > 0.2  # the bound is not met by far too much noise


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_rate_is_used_up_in_the_worst_case(relation):
    """A record that is alone in one column and not in the other: nearly all of ε is lost, no more."""
    schema = schema_of(relation, a=2, b=3)
    candidates = [("a",), ("b",)]
    score = InformationCriterion(schema)
    n = 50_000
    before = [n, n, 0, 0, 0, 0] if relation == "add-remove" else [n, n, 1, 0, 0, 0]
    after = [n, n, 0, 1, 0, 0]
    p, q = (
        selection_probabilities(
            scores_of(score, schema, cells, candidates),
            score.sensitivity(relation, 1),
            Fraction(1),
            monotone=score.monotone(relation),
            law="exponential",
        )
        for cells in (before, after)
    )
    assert loss(p, q) <= 1
    assert loss(p, q) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("within", [(), ("c",)])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_sensitivities_over_all_small_tables(relation, within):
    """One row, with and without nodes that it may change: the stated bound holds and is nearly reached."""
    schema = schema_of(relation, c=2, a=3)
    cells = {"aic": InformationCriterion(schema, within), "me": MisplacedRows(schema, {("a",): 0.0}, within)}
    for name, score in cells.items():
        stated = float(score.sensitivity(relation, 1))
        changes = [
            scores_of(score, schema, other, [("a",)])[0] - scores_of(score, schema, table, [("a",)])[0]
            for rows in (1, 2, 3)
            for table in joint_tables(6, rows)
            for other in neighbours_of(table, relation)
        ]
        assert max(map(abs, changes)) <= stated + 1e-12
        if name == "me":
            # An even spread over K levels makes each row count 1 − 1/K, or 1 where it only changes its level.
            reached = {("add-remove", ()): 2 / 3, ("replace", ()): 1.0}.get((relation, within))
            reached = (2 / 3 if relation == "add-remove" else 4 / 3) if reached is None else reached
            assert max(map(abs, changes)) == pytest.approx(reached)
        if score.monotone(relation):
            assert min(changes) >= -1e-12  # scores are minus AIC: fewer rows, larger score


def test_units_with_several_rows_and_foreign_relations():
    schema = schema_of(a=2, b=3)
    assert InformationCriterion(schema).sensitivity("add-remove", 4) == 8
    assert MisplacedRows(schema, {}).sensitivity("replace", 4) == 4
    assert MisplacedRows(schema, {}, ("a",)).sensitivity("replace", 4) == 8
    for score in (InformationCriterion(schema), MisplacedRows(schema, {})):
        with pytest.raises(UnsupportedError, match="label"):
            score.sensitivity("label", 1)


def test_a_contrast_moves_twice_as_far_under_replace():
    """Two columns whose AIC move in opposite directions: 2 is not enough for a difference of means."""
    schema = schema_of("replace", a=2, b=2)
    score = Contrast(InformationCriterion(schema), ("a", "b"))
    n = 50_000
    before, after = [n, 0, 0, 1], [n, 0, 0, 1]
    # a row of (a=0, b=1), alone in b, becomes (a=1, b=0), alone in a
    before[1] += 1
    after[2] += 1
    before[3] = after[3] = 0
    moved = np.diff([scores_of(score, schema, cells, [("a",)])[0] for cells in (before, after)])[0]
    assert 3.9 < abs(moved) < float(score.sensitivity("replace", 1)) == 4
    assert score.sensitivity("add-remove", 1) == 2
    assert not score.monotone("add-remove")


def test_contrast_prefers_the_better_group():
    schema = schema_of(a=2, b=5)
    table = Marginal.of(schema, ["a", "b"])
    cells = np.zeros(table.size, dtype=int)
    cells[:5] = 100
    first, second = scores_of(Contrast(InformationCriterion(schema), ("a", "b")), schema, cells, [("a",), ("b",)])
    assert first > 0 > second
    assert first == pytest.approx(-second)
