"""Weighted sums: what one unit can move, by brute force, and the noise that is drawn for it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting.count import BatchRows
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.calibration import sensitivity_for
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Rule, Schema, Unit, WeightedSums
from dipsmith.schema.bins import by_width, singles
from dipsmith.sources import source

WEIGHTS = (-3, 1, 2)


def schema(labels: int, rules: tuple[Rule, ...] = (), max_rows: int = 1) -> Schema:
    unit = Unit("person", max_rows) if max_rows > 1 else Unit()
    return Schema(
        "t",
        (
            Attribute("group", "string", Categories.of("ab", other="a"), "public"),
            Attribute("weight", "integer", singles("integer", 0, 2, missing=False), "public"),
            Attribute("label", "string", Categories.of("xyz"[:labels], other="x"), "private"),
        ),
        unit,
        "label",
        rules,
    )


def curator(codes: Codes, budget: PureDP | ZCDP, seed: int = 1) -> Curator:
    return Curator.rehearse(codes, budget, seed=seed)


def rows(s: Schema, labels: tuple[int, ...]) -> Codes:
    n = len(labels)
    columns = {"group": np.arange(n) % 2, "weight": np.arange(n) % 3, "label": np.array(labels)}
    return Codes.of(s, columns, n)


def exact(s: Schema, labels: tuple[int, ...]) -> np.ndarray:
    """The sums by the definition, of rows that break no rule; of two labels the second."""
    lawful = rows(s, labels).lawful()
    sums = np.zeros((2, s["label"].size), np.int64)
    for i, label in enumerate(labels):
        if lawful[i]:
            sums[i % 2, label] += WEIGHTS[i % 3]
    return sums[:, 1:] if s["label"].size == 2 else sums


@pytest.mark.slow
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("ruled", [False, True])
def test_no_neighbour_moves_sums_farther(labels: int, k: int, ruled: bool) -> None:
    rules = (Rule((("group", (0,)), ("label", (labels - 1,))), "no a with the last"),) if ruled else ()
    s = schema(labels, rules, k)
    n = 4
    vectors = list(product(range(labels), repeat=n))
    farthest = {"pure": 0, "zcdp": 0}
    for first in vectors:
        for second in vectors:
            if sum(a != b for a, b in zip(first, second, strict=True)) <= k:
                moved = exact(s, first) - exact(s, second)
                farthest["pure"] = max(farthest["pure"], int(np.abs(moved).sum()))
                farthest["zcdp"] = max(farthest["zcdp"], int((moved**2).sum()))
    single, heaviest = labels == 2, max(map(abs, WEIGHTS))
    for name, budget in (("pure", PureDP(1)), ("zcdp", ZCDP(1))):
        bound = sensitivity_for("label", k, budget, single=single, heaviest=heaviest)
        assert farthest[name] <= bound
        if k == 1 and not ruled:
            assert farthest[name] == bound


@pytest.mark.parametrize("labels", [2, 3])
def test_sums_are_those_of_the_definition(labels: int) -> None:
    s = schema(labels)
    drawn = tuple(np.random.default_rng(3).integers(0, labels, 60))
    question = WeightedSums(s, ("group",), ("label",), "weight", WEIGHTS)
    (found,) = curator(rows(s, drawn), PureDP(10**6)).add_up([question], [PureDP(10**6)])
    values = found.values.reshape(2, labels)
    assert np.array_equal(values[:, 1:] if labels == 2 else values, exact(s, drawn))
    assert found.totals is not None
    assert np.array_equal(values.sum(axis=1), found.totals)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [2, 3])
def test_noise_is_what_the_price_asks_for(labels: int) -> None:
    """6,800 sums or more: the variance of discrete noise is within 8 standard errors of its law (false positive 1e-14).

    Of two labels one sum is drawn, which moves by half of what all sums of three move by.
    """
    s, given = schema(labels), (0, 1, labels - 1, 1)
    codes, moved = rows(s, given), labels - 1
    for budget, scale in ((PureDP("0.5"), moved * 3 / 0.5), (ZCDP("0.02"), None)):
        question = WeightedSums(s, ("group",), ("label",), "weight", WEIGHTS)
        found = curator(codes, type(budget)(3400 * budget.exact)).add_up([question] * 3400, [budget] * 3400)
        drawn = [one.values.reshape(2, labels)[:, 1 if labels == 2 else 0 :] for one in found]
        noise = np.concatenate([(v - exact(s, given).reshape(v.shape)).ravel() for v in drawn]).astype(float)
        wanted = 2 * scale**2 if scale is not None else moved * 9 / (2 * 0.02)
        error = noise.var() * np.sqrt(5 / len(noise))
        assert abs(noise.var() - wanted) < 8 * error


def test_the_event_tells_the_sensitivity() -> None:
    s = schema(3)
    c = curator(rows(s, (0, 1, 2, 1)), PureDP(1))
    question = WeightedSums(s, ("group",), ("label",), "weight", WEIGHTS, title="Σ pay × label")
    (found,) = c.add_up([question], [PureDP(1)])
    assert found.cells.key == "Σ pay × label"
    assert sensitivity_for("label", 1, PureDP(1), heaviest=question.heaviest) == Fraction(6)
    assert c.remaining is None
    assert [a.measurement for a in c.answers] == [found]


def test_only_public_weights_and_groups() -> None:
    s = schema(3)
    with pytest.raises(UsageError, match="'label' is private"):
        WeightedSums(s, ("label",), ("label",))
    with pytest.raises(UsageError, match="'group' is public"):
        WeightedSums(s, (), ("group",))
    other = Schema("t", s.attributes, Unit(), "replace")
    with pytest.raises(UnsupportedError, match="label"):
        curator(rows(other, (0, 1)), PureDP(1)).add_up([WeightedSums(other, ("group",), ("label",))], [PureDP(1)])


def test_a_group_without_rows_carries_no_noise() -> None:
    s = schema(3)
    codes = Codes.of(s, {"group": np.zeros(6, int), "weight": np.zeros(6, int), "label": np.arange(6) % 3}, 6)
    (found,) = curator(codes, PureDP("0.01")).add_up([WeightedSums(s, ("group",), ("label",))], [PureDP("0.01")])
    assert np.array_equal(found.values[3:], [0, 0, 0])
    assert found.noisy is not None
    assert found.noisy.tolist() == [True] * 3 + [False] * 3


@pytest.mark.slow
@pytest.mark.parametrize("key", range(6))
def test_labels_do_not_decide_which_kinds_of_rows_count(key: int) -> None:
    """One unit, five rows of one bin and five public values, two of which count: the same two whatever their labels are."""
    declared = Schema(
        "t",
        (
            Attribute("pay", "number", by_width("number", 0, 10, 10), "public"),
            Attribute("s", "string", Categories.of("FM", other="M"), "private"),
        ),
        Unit("id", 2),
        "label",
    )
    found = set()
    for labels in product("FM", repeat=5):
        for order in (range(5), [3, 0, 4, 1, 2]):
            columns = {"id": [7] * 5, "pay": [float(i) for i in order], "s": [labels[i] for i in order]}
            rows = BatchRows(source(pa.table(columns)), declared, bytes([key] * 32))
            curator = Curator(rows, PureDP(1), stream=Stream.of(1), journal=Rehearsal())
            kinds = curator.count_kinds(np.array(order, np.int64), 5)
            found.add(tuple(kinds.tolist()))
            assert rows.count([Marginal.of(declared, ("s",))])[0].tolist() == [
                sum(labels[i] == s for i in np.flatnonzero(kinds)) for s in "FM"
            ]
    assert len(found) == 1
    assert sum(found.pop()) == 2


def test_kinds_are_told_before_rows_are_counted() -> None:
    declared = Schema(
        "t", (Attribute("s", "string", Categories.of("FM", other="M"), "private"),), Unit("id", 1), "label"
    )
    rows = BatchRows(source(pa.table({"id": [1, 1], "s": ["F", "M"]})), declared)
    rows.total()
    with pytest.raises(UsageError, match="without their kinds"):
        rows.public_mask(np.zeros(2, np.int64))
