"""The audit's own definitions: independent of the code they judge, and right."""

import ast
import doctest
import importlib
import itertools
import pkgutil
from decimal import Decimal
from fractions import Fraction
from math import exp, factorial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assurance
from assurance import definitions, recording
from assurance.cases import registered_cases
from assurance.definitions import log_ratio, moments, reach
from assurance.pairs import PRIVATE, neighbours, pair_schema
from assurance.rerun import check_pair
from dipsmith import audit
from dipsmith.audit import choice_law
from dipsmith.audit.choice_law import choice_probabilities
from dipsmith.privacy import curator as curating
from dipsmith.privacy import neighbours as relations
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.schema import Marginal
from selection_law import selection_probabilities

JUDGED = {
    "noise_for", "selection_probabilities", "l1", "l2_squared", "step_and_rate", "round_to_grid", "sensitivity_for", "choice_epsilon", "_noise",
    "noise_event", "blocks_rule", "variance", "pmf", "sensitivities",
}  # fmt: skip
"""By these the package draws and charges; whoever checks it must not ask them."""


@pytest.mark.parametrize("module", [choice_law, definitions, recording])
def test_the_check_does_not_ask_what_it_checks(module):
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    used |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    used |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom | ast.Import) for a in n.names}
    assert used & (JUDGED - {"variance"}) == set()
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not imported & {
        "dipsmith.privacy.neighbours",
        "dipsmith.privacy.selection",
        "dipsmith.privacy.accountant",
    }


@pytest.mark.parametrize("module", [choice_law, definitions])
def test_definitions_know_nothing_of_the_barrier(module):
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    rooms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and "dipsmith" in (n.module or "")}
    assert rooms <= {"dipsmith.schema"}


def by_orders(weights):
    """Permute-and-flip by what it does: every order, the first that is taken."""
    won = [0.0] * len(weights)
    for order in itertools.permutations(range(len(weights))):
        alive = 1.0 / factorial(len(weights))
        for i in order:
            won[i] += alive * weights[i]
            alive *= 1 - weights[i]
    return won


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=6),
    st.fractions(Fraction(1, 9), 5, max_denominator=50),
    st.fractions(Fraction(1, 20), 8, max_denominator=50),
    st.booleans(),
)
def test_choices_are_likely_as_their_definition_says(scores, sensitivity, epsilon, monotone):
    """By every order, and as the formula that the proofs of the package use."""
    for law in ("permute-and-flip", "exponential"):
        found = choice_probabilities(scores, sensitivity, epsilon, monotone=monotone, law=law)
        assert abs(sum(found) - 1) < Decimal("1e-25")
        theirs = selection_probabilities(np.array(scores), sensitivity, epsilon, monotone=monotone, law=law)
        assert all(abs(a - b) < Decimal("1e-25") for a, b in zip(found, theirs, strict=True))
    rate = epsilon / (sensitivity * (1 if monotone else 2))
    close = by_orders([exp(-float(rate) * (max(scores) - s)) for s in scores])
    # The grid makes a choice by 2 in 1024 less eager at most, and moves a score by half a step.
    found = choice_probabilities(scores, sensitivity, epsilon, monotone=monotone, law="permute-and-flip")
    for a, b in zip(found, close, strict=True):
        assert float(a) == pytest.approx(b, abs=0.02)


@pytest.mark.parametrize(
    ("relation", "names", "limit", "expected"),
    [
        ("add-remove", ("sex", "race"), None, 1),
        ("replace", ("sex", "race"), None, 2),
        ("replace", (), None, 0),
        ("replace", (), 2, 1),
        ("label", ("grade", "sex"), None, 2),
        ("label", ("grade",), None, 0),
    ],
)
def test_reach_of_a_row(relation, names, limit, expected):
    schema = pair_schema(relation, limit, ruled=False)
    cells = Marginal.of(schema, names)
    assert reach(cells, relation, rows_vary=limit is not None) == expected
    # Of two labels one count is released: a changed label moves it by one.
    if relation == "label" and names == ("grade", "sex"):
        assert reach(cells, relation, rows_vary=False, noisy=np.arange(1, cells.size, 2)) == 1


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_package_supposes_no_less_than_the_reach(relation, k):
    schema = pair_schema(relation, k, ruled=False)
    most = reach(Marginal.of(schema, schema.names), relation, rows_vary=True)
    assert relations.l1(relation, k) == most * k
    assert relations.l2_squared(relation, k) == most * k * k


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(40)])
def test_moments_and_ratios_are_those_of_the_laws(scale):
    for law, squared in ((DiscreteLaplace(scale), False), (DiscreteGaussian(scale), True)):
        assert moments(scale, squared=squared)[0] == pytest.approx(law.variance, rel=1e-9)
        mass = law.pmf([4, 2])
        found = log_ratio(scale, [5], [1], [3], squared=squared)
        assert float(found) == pytest.approx(np.log(mass[0] / mass[1]), rel=1e-9)


# --- what a check by the package's own formulas would have let pass --------------------------------


def findings(case, budget):
    return [f for seed in range(6) for f in check_pair(neighbours(case.relation, seed), case, budget, seed).findings]


@pytest.mark.parametrize("budget", [PureDP(2), ZCDP("0.3")], ids=str)
def test_a_sensitivity_that_is_believed_too_small_is_found(budget, monkeypatch):
    """Noise, charge and event agree with one another, and all of them with the wrong number."""
    case = next(c for c in registered_cases(PRIVATE) if c.name == "flat" and c.relation == "replace")
    for name, real in (("l1", relations.l1), ("l2_squared", relations.l2_squared)):
        monkeypatch.setattr(relations, name, lambda *a, real=real: max(real(*a) // 2, 1))
    assert any("noise was drawn at scale" in f for f in findings(case, budget))


def test_a_choice_at_more_than_its_price_is_found(monkeypatch):
    case = next(c for c in registered_cases(PRIVATE) if c.name == "mst" and c.relation == "replace")
    monkeypatch.setattr(curating, "choice_epsilon", lambda budget: Fraction(7, 2))
    assert any("is more than was charged" in f for f in findings(case, ZCDP("0.3")))


@pytest.mark.parametrize("room", [audit, assurance], ids=lambda room: room.__name__)
def test_examples_hold(room):
    tried = 0
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        done = doctest.testmod(importlib.import_module(module.name))
        assert done.failed == 0, module.name
        tried += done.attempted
    assert tried > 3
