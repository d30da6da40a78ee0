"""Rows that break no rule, from models that know few of them or none."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from dipsmith.errors import UsageError
from dipsmith.estimation.lawful import BARREN, lawful_rows, require_possible
from dipsmith.schema import Attribute, Categories, Codes, Rule, Schema, Unit


def schema_of(*forbidden: int) -> Schema:
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)])) for n, s in (("a", 4), ("b", 3))
    )
    return Schema("t", attributes, Unit(), "replace", (Rule((("a", forbidden),)),))


class Model:
    """Draws a = 0, which is forbidden, but for a share of the rows that have a = 3 and b = 1."""

    def __init__(self, schema: Schema, lawful: float) -> None:
        self.schema, self.lawful = schema, lawful
        self.asked: list[int] = []
        self.random = np.random.default_rng(1)

    def __call__(self, n: int) -> Codes:
        self.asked.append(n)
        fine = self.random.random(n) < self.lawful
        return Codes.of(self.schema, {"a": 3 * fine, "b": np.ones(n, dtype=int)}, n)


@pytest.mark.parametrize("n", [3, 1_000, 50_000])
def test_a_model_without_lawful_rows_is_given_up_in_time(n: int) -> None:
    """The rows are then uniform over what is lawful; chi-squared of 9 cells is below 60 but for one time in 10^9."""
    model = Model(schema_of(0), 0.0)
    rows = lawful_rows(model, n, seed=1)
    assert len(rows) == n
    assert rows.lawful().all()
    assert sum(model.asked) <= BARREN + 111 * n + 16 * 100
    if n == 50_000:
        counts = np.bincount(rows["a"].astype(int) * 3 + rows["b"], minlength=12)[3:]
        assert ((counts - n / 9) ** 2 / (n / 9)).sum() < 60


@pytest.mark.parametrize("lawful", [0.5, 0.001])
def test_a_model_with_few_lawful_rows_is_asked_until_there_are_enough(lawful: float) -> None:
    rows = lawful_rows(Model(schema_of(0), lawful), 2_000, seed=1)
    assert len(rows) == 2_000
    assert set(zip(rows["a"].tolist(), rows["b"].tolist(), strict=True)) == {(3, 1)}, "none is uniform"


def test_rules_that_forbid_everything_are_named() -> None:
    with pytest.raises(UsageError, match="leave almost no combination"):
        lawful_rows(Model(schema_of(0, 1, 2, 3), 0.5), 5, seed=1)


def test_rules_are_found_impossible_exactly_where_no_combination_is_left() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(150):
        sizes = {name: int(rng.integers(1, 4)) for name in "abc"}
        rules = []
        for _ in range(int(rng.integers(1, 10))):
            named = sorted(rng.permutation(list(sizes))[: rng.integers(1, 4)].tolist())
            never = {n: tuple(sorted({int(c) for c in rng.integers(0, sizes[n], rng.integers(1, 4))})) for n in named}
            rules.append(Rule(tuple(never.items())))
        attributes = tuple(Attribute(n, "string", Categories.of([str(i) for i in range(s)])) for n, s in sizes.items())
        schema = Schema("t", attributes, Unit(), "replace", tuple(rules))
        every = np.array(list(product(*map(range, sizes.values()))))
        possible = bool(Codes.of(schema, dict(zip(sizes, every.T, strict=True)), len(every)).lawful().any())
        found.append(possible)
        if possible:
            require_possible(schema)
        else:
            with pytest.raises(UsageError, match="no combination of values possible"):
                require_possible(schema)
    assert 20 < sum(found) < 130


def test_a_long_chain_of_rules_is_found_possible_at_once() -> None:
    names = [f"x{i}" for i in range(300)]
    attributes = tuple(Attribute(n, "string", Categories.of(["0", "1"])) for n in names)
    rules = [Rule(((a, (0,)), (b, (1,)))) for a, b in pairwise(names)]
    require_possible(Schema("t", attributes, Unit(), "replace", tuple(rules)))
