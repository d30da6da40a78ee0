"""The barrier: noise where it must be, within the sensitivity, within the budget."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.counting import count
from dipsmith.counting.count import MemoryRows
from dipsmith.counting.tally import Tally
from dipsmith.errors import BudgetError, UnsupportedError, UsageError
from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.calibration import noise_for
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured, Partitioned, Rehearsal
from dipsmith.privacy.gaussian_price import variance_needed
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Categories, Codes, Crossed, Marginal, Rule, Schema, Unit


def table(relation="label", labels="uv", rules=(), unit=None):
    return Schema(
        "t",
        (
            Attribute("place", "string", Categories.of("xyz", other="x"), "public"),
            Attribute("age", "string", Categories.of("yo", other="y"), "public"),
            Attribute("sex", "string", Categories.of(labels, other=labels[0]), "private"),
        ),
        unit or Unit(),
        relation,
        rules,
    )


def rows_of(schema, n=400, seed=0):
    rng = np.random.default_rng(seed)
    return Codes.of(schema, {a.name: rng.integers(0, max(1, a.size - (a.name == "place")), n) for a in schema})


def curator_of(schema, budget=None, n=400, seed=3):
    return Curator.rehearse(rows_of(schema, n), budget or PureDP(1), seed=seed)


def test_every_possible_cell_is_noised():
    # 200 000 draws at scale 2 (add-remove, ε = 1/2): a cell without noise would repeat its count always;
    # P(noise = 0) = tanh(1/4) = .245, so 40 repeats of zero noise have probability below 1e-24.
    schema = table("add-remove")
    marginal = Marginal.of(schema, schema.names)
    true = MemoryRows(rows_of(schema)).count([marginal])[0]
    values = np.stack(
        [
            Curator.rehearse(rows_of(schema), PureDP("0.5"), seed=i).measure([marginal], [PureDP("0.5")])[0].values
            for i in range(60)
        ]
    )
    assert (values != true).any(axis=0).all()


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.5")])
def test_noise_is_calibrated_to_the_relation(relation, budget):
    schema = table(relation, labels="uvw")
    curator = curator_of(schema, budget)
    curator.measure([Marginal.of(schema, ["sex"])], [budget])
    (event,) = curator._journal.events
    expected = {"add-remove": 1, "replace": 2, "label": 2}[relation]
    assert event.sensitivity == expected
    # Δ₁/ε with ε = 1; with ρ = 1/2 what hides as much as a normal variance Δ₂²/(2ρ)
    assert event.scale == (expected if isinstance(budget, PureDP) else variance_needed(Fraction(expected)))


def test_single_count_draws_once_per_group():
    schema = table("label")
    measured = curator_of(schema).measure([Marginal.of(schema, ["place", "sex"])], [PureDP(1)])[0]
    assert measured.single
    assert measured.groups.sum(axis=1).tolist() == measured.totals.tolist()
    assert measured.variance == pytest.approx(noise_for("label", 1, PureDP(1), single=True).variance)
    assert measured.variance == pytest.approx(1.8413, abs=1e-4)


def test_publicly_empty_groups_carry_no_noise():
    schema = table("label", labels="uvw")
    measured = curator_of(schema).measure([Marginal.of(schema, ["place", "sex"])], [PureDP("0.001")])[0]
    assert measured.totals[2] == 0
    assert measured.groups[2].tolist() == [0, 0, 0]
    assert not measured.noisy.reshape(3, 3)[2].any()
    assert measured.noisy.reshape(3, 3)[:2].all()


def test_empty_groups_do_carry_noise_when_sizes_are_private():
    schema = table("add-remove")
    measured = curator_of(schema).measure([Marginal.of(schema, ["place", "sex"])], [PureDP("0.001")])[0]
    assert measured.noisy is None
    assert (measured.values.reshape(3, 2)[2] != 0).any()


def test_forbidden_cells_are_zero_and_noiseless():
    rule = Rule((("age", (0,)), ("sex", (1,))), "never")
    for relation in ("add-remove", "label"):
        schema = table(relation, rules=(rule,))
        measured = curator_of(schema).measure([Marginal.of(schema, ["age", "sex"])], [PureDP("0.01")])[0]
        assert measured.values[1] == 0
        assert measured.noisy is not None
        assert not measured.noisy[1]


def test_one_possible_label_is_the_public_size():
    rule = Rule((("age", (0,)), ("sex", (1,))), "never")
    schema = table("label", rules=(rule,))
    measured = curator_of(schema).measure([Marginal.of(schema, ["age", "sex"])], [PureDP("0.01")])[0]
    assert measured.groups[0].tolist() == [measured.totals[0], 0]


def test_public_counts_ignore_private_rules():
    plain, ruled = table("label"), table("label", rules=(Rule((("sex", (1,)),), "never"),))
    cells = "place"
    free = curator_of(plain).public_counts([Marginal.of(plain, [cells])])[0]
    assert curator_of(ruled).public_counts([Marginal.of(ruled, [cells])])[0].tolist() == free.tolist()


def test_public_counts_respect_public_rules():
    ruled = table("label", rules=(Rule((("place", (1,)),), "never"),))
    counts = curator_of(ruled).public_counts([Marginal.of(ruled, ["place"])])[0]
    assert counts[1] == 0
    assert counts[0] > 0


def test_private_columns_are_never_free():
    schema = table("label")
    curator = curator_of(schema)
    with pytest.raises(UnsupportedError, match="'sex' is private"):
        curator.public_counts([Marginal.of(schema, ["place", "sex"])])
    with pytest.raises(UnsupportedError, match="'sex' is private"):
        curator.public_rows(["sex"])


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_nothing_is_free_outside_label(relation):
    schema = table(relation)
    with pytest.raises(UnsupportedError, match="free only under neighbours 'label'"):
        curator_of(schema).public_counts([Marginal.of(schema, ["place"])])


def test_row_count_is_public_only_where_declared():
    assert curator_of(table("replace")).rows == 400
    assert curator_of(table("label")).rows == 400
    assert curator_of(table("add-remove")).rows is None
    units = Unit("person", max_rows=3)
    assert curator_of(table("replace", unit=units)).rows is None
    given = Curator.rehearse(rows_of(table("add-remove")), PureDP(1), given_rows=500, seed=0)
    assert given.rows == 500


def test_curator_refuses_to_overspend():
    schema = table("replace")
    curator = curator_of(schema, PureDP("0.3"))
    cells = Marginal.of(schema, ["sex"])
    curator.measure([cells, cells], [PureDP("0.1"), PureDP("0.1")])
    assert str(curator.remaining) == "ε = 0.1"
    with pytest.raises(BudgetError, match=r"only ε = 0.1 of ε = 0.3 is left"):
        curator.measure([cells], [PureDP("0.100000000001")])
    curator.measure([cells], [PureDP("0.1")])
    assert curator.remaining is None
    with pytest.raises(BudgetError, match="one currency"):
        curator.measure([cells], [ZCDP("0.1")])


def test_nested_curators_share_one_purse():
    schema = table("replace")
    curator = curator_of(schema, PureDP(1))
    child = curator.nested(PureDP("0.6"), "tree 1")
    with pytest.raises(BudgetError):
        curator.measure([Marginal.of(schema, ["sex"])], [PureDP("0.5")])
    child.measure([Marginal.of(schema, ["sex"])], [PureDP("0.6")])
    assert child.remaining is None
    assert curator._journal.events[-1].block == "tree 1"


@pytest.mark.parametrize(
    ("relation", "attribute", "unit", "rule", "share", "inner"),
    [
        ("label", "age", Unit(), "maximum", "1", "label"),
        ("label", "sex", Unit(), "two-dearest", "0.5", "add-remove"),
        ("replace", "age", Unit(), "two-dearest", "0.5", "add-remove"),
        ("add-remove", "age", Unit(), "maximum", "1", "add-remove"),
        ("add-remove", "age", Unit("person", 4), "sum", "0.5", "add-remove"),
        ("label", "age", Unit("person", 4, per="age"), "maximum", "1", "label"),
    ],
)
def test_partition_follows_the_composition_rule(relation, attribute, unit, rule, share, inner):
    schema = table(relation, unit=unit)
    curator = curator_of(schema, PureDP(1))
    blocks = curator.partition(attribute, PureDP(1))
    assert [b.budget for b in blocks] == [PureDP(share)] * schema[attribute].size
    assert {b.relation for b in blocks} == {inner}
    (opening,) = curator._journal.events
    assert isinstance(opening, Partitioned)
    assert opening.rule == rule
    assert curator.remaining is None
    if inner == "label":
        sizes = [b.public_counts([Marginal.of(schema, ["place"])])[0].sum() for b in blocks]
        assert sum(sizes) == 400


class Largest:
    """A score: the count of one label."""

    name = "count of a label"

    def __init__(self, schema):
        self.cells = Marginal.of(schema, ["sex"])

    def tables(self, candidate):
        return [self.cells]

    def value(self, candidate, counts):
        return float(counts[0][candidate])

    def sensitivity(self, relation, max_rows):
        return Fraction(max_rows)

    def monotone(self, relation):
        return relation == "add-remove"


@pytest.mark.parametrize("budget", [PureDP(2), ZCDP("0.5")])
def test_choose_prefers_high_scores_and_charges_once(budget):
    schema = table("replace", labels="uv")
    codes = Codes.of(schema, {"place": np.zeros(300, int), "age": np.zeros(300, int), "sex": np.repeat([0, 1, 1], 100)})
    curator = Curator.rehearse(codes, budget, seed=5)
    # The scores differ by 100 at sensitivity 1: the wrong one has probability below e^-50.
    assert curator.choose([0, 1], Largest(schema), budget) == 1
    (event,) = curator._journal.events
    assert isinstance(event, Chosen)
    assert event.mechanism == ("permute-and-flip" if isinstance(budget, PureDP) else "exponential mechanism")
    assert curator.remaining is None
    with pytest.raises(UsageError, match="no candidates"):
        curator.choose([], Largest(schema), budget)


@pytest.fixture
def read(monkeypatch):
    """The tables of every pass over rows in memory."""
    passes = []

    class Watched(Tally):
        def add(self, codes):
            passes.append([c.key for c in self._cells])
            super().add(codes)

    monkeypatch.setattr(count, "Tally", Watched)
    return passes


def test_what_was_counted_is_noised_afresh_but_not_counted_again(read):
    schema = table("replace")
    codes = rows_of(schema)
    curator = Curator(MemoryRows(codes), PureDP(30), stream=Stream.for_testing(1), journal=Rehearsal())
    curator.choose([0, 1], Largest(schema), PureDP(10))
    sex, place = Marginal.of(schema, ["sex"]), Marginal.of(schema, ["place"])
    found = [m for _ in range(2) for m in curator.measure([place, sex], [PureDP(5), PureDP(5)])]
    assert read == [["sex"], ["place"]]
    for measured in found:
        # Discrete Laplace at scale 2/5, at most 12 cells: P(|noise| > 8) < 12·2·e^(−20) < 1e-6.
        assert np.abs(measured.values - MemoryRows(codes).count([measured.cells])[0]).max() <= 8
    assert len(curator._journal.events) == 5


def test_what_is_prefetched_is_counted_once_by_the_next_choice_and_neither_charged_nor_answered(read):
    schema = table("replace")
    found = []
    for named in ([], ["place", "age", "sex", "age"]):
        curator = Curator(MemoryRows(rows_of(schema)), PureDP(1), stream=Stream.for_testing(1), journal=Rehearsal())
        if named:
            before = len(read)
            assert curator.prefetch(Marginal.of(schema, [name]) for name in named) is None
            assert len(read) == before, "no row is read outside a choice"
        assert curator._journal.events == []
        assert curator.remaining == PureDP(1)
        answers = [curator.choose([0, 1], Largest(schema), PureDP("0.001")) for _ in range(40)]
        found.append((answers, curator.measure([Marginal.of(schema, ["age"])], [PureDP("0.5")])[0].values))
    # Scores differ by less than the noise: the choices would differ had the stream been drawn from.
    assert set(found[0][0]) == {0, 1}
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert read == [["sex"], ["age"], ["sex", "place", "age"]]


def test_what_is_prefetched_is_counted_by_the_next_measurement_which_is_the_same(read):
    schema = table("replace")
    found = []
    for named in ([], ["place", "sex", "age"]):
        curator = Curator(MemoryRows(rows_of(schema)), PureDP(1), stream=Stream.for_testing(1), journal=Rehearsal())
        curator.prefetch(Marginal.of(schema, [name]) for name in named)
        values = [
            m.values
            for m in curator.measure([Marginal.of(schema, ["sex"]), Marginal.of(schema, ["age"])], [PureDP("0.2")] * 2)
        ]
        chosen = [curator.choose([0, 1], Largest(schema), PureDP("0.001")) for _ in range(40)]
        found.append((values, chosen, curator._journal.events, curator.remaining))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert found[0][1:] == found[1][1:]
    assert read == [["sex", "age"], ["sex", "age", "place"]]


def test_events_are_recorded_before_an_answer_is_given(read):
    class Broken(Rehearsal):
        def record(self, *events):
            raise BudgetError("the ledger refuses")

    schema = table("replace")
    curator = Curator(MemoryRows(rows_of(schema)), PureDP(1), stream=Stream.for_testing(1), journal=Broken())
    with pytest.raises(BudgetError, match="refuses"):
        curator.measure([Marginal.of(schema, ["sex"])], [PureDP(1)])
    assert read == []


row = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(row, min_size=1, max_size=12),
    other=row,
    relation=st.sampled_from(["add-remove", "replace", "label"]),
    ruled=st.booleans(),
    data=st.data(),
)
def test_neighbours_move_counts_within_sensitivity(rows, other, relation, ruled, data):
    rules = (Rule((("age", (0,)), ("sex", (1, 2))), "never"),) if ruled else ()
    schema = table(relation, labels="uvw", rules=rules)
    i = data.draw(st.integers(0, len(rows) - 1))
    if relation == "add-remove":
        neighbour = rows[:i] + rows[i + 1 :]
    elif relation == "replace":
        neighbour = [*rows[:i], other, *rows[i + 1 :]]
    else:
        neighbour = [*rows[:i], (*rows[i][:2], other[2]), *rows[i + 1 :]]

    def held(table_rows):
        columns = np.array(table_rows, dtype=int).reshape(-1, 3).T
        return MemoryRows(Codes.of(schema, dict(zip(schema.names, columns, strict=True)), len(table_rows)))

    cells = [
        Marginal.of(schema, schema.names),
        Marginal.of(schema, ["sex"]),
        Crossed(Marginal.of(schema, ["place", "age"]), Marginal.of(schema, ["sex"])),
    ]
    for before, after in zip(held(rows).count(cells), held(neighbour).count(cells), strict=True):
        change = np.abs(before - after)
        assert change.sum() <= neighbours.l1(relation, 1)
        assert (change**2).sum() <= neighbours.l2_squared(relation, 1)
    if relation == "label":
        public = [Marginal.of(schema, ["place", "age"])]
        assert held(rows).count_public(public)[0].tolist() == held(neighbour).count_public(public)[0].tolist()


def test_large_tables_treat_occupied_and_empty_cells_alike():
    schema = table("add-remove")
    marginal = Marginal.of(schema, schema.names)
    curator = curator_of(schema, PureDP(1))
    measured = curator.measure([marginal], [PureDP(1)], keep_above=30)[0]
    assert measured.threshold == 30
    assert (measured.values > 30).all()
    assert len(measured.kept) == len(measured.values) < marginal.size
    (event,) = curator._journal.events
    assert isinstance(event, Measured)


def test_coins_are_public_and_replayable():
    schema = table("replace")
    codes = rows_of(schema)
    first = Curator.rehearse(codes, PureDP(1), seed=1)
    again = Curator(MemoryRows(codes), PureDP(1), stream=Stream(), journal=Rehearsal(), coin_seed=first.coin_seed)
    assert first.coins("tree 1").integers(0, 1 << 30) == again.coins("tree 1").integers(0, 1 << 30)
    assert first.coins("tree 1").integers(0, 1 << 30) != first.coins("tree 2").integers(0, 1 << 30)


def test_a_table_too_large_to_count_is_refused_before_it_is_charged():
    wide = Categories.of([str(i) for i in range(20_000)], other="0")
    schema = Schema("t", (Attribute("a", "string", wide), Attribute("b", "string", wide)), Unit(), "replace")
    codes = Codes.of(schema, {"a": np.zeros(3, int), "b": np.zeros(3, int)})
    curator = Curator.rehearse(codes, PureDP(1), seed=0)
    with pytest.raises(UsageError, match="a"):
        curator.measure([Marginal.of(schema, ["a", "b"])], [PureDP(1)])
    assert curator._journal.events == []
    assert curator.remaining == PureDP(1)
