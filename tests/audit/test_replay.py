"""Record and replay on neighbouring tables: nothing but paid answers depends on one unit.

The full matrix (200 pairs for each method and relation) is `make audit`; this is its short version.
"""

from contextlib import nullcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assurance.cases import Case, planned_cases, registered_cases, variants
from assurance.matrix import flagged_piece, half_noise
from assurance.pairs import FIELDS, KINDS, PRIVATE, Pair, neighbours
from assurance.recording import Recording, Replay
from assurance.rerun import check_pair
from dipsmith.audit.observation import Observation
from dipsmith.counting import BatchRows
from dipsmith.counting.count import MemoryRows
from dipsmith.methods.forest.training import Dependence
from dipsmith.methods.graph.aim import AIM
from dipsmith.privacy import curator as curator_module
from dipsmith.privacy.accountant import Purse
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.observer import PublicAnswer, observed_rows
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import WeightQuestion
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit, WeightedSums, WeightTotals
from dipsmith.schema.bins import singles
from dipsmith.sources import source

BUDGETS = {"pure": PureDP(2), "zcdp": ZCDP("0.3")}


def named(case):
    return f"{case.name}/{case.relation}"


CATALOGUE = registered_cases(PRIVATE)
VARIANTS = variants(PRIVATE)
PLANNED = planned_cases(PRIVATE)


@pytest.mark.parametrize("currency", BUDGETS)
@pytest.mark.parametrize("case", CATALOGUE, ids=named)
def test_nothing_but_paid_answers_depends_on_one_unit(case, currency):
    first = 0 if currency == "pure" else 2
    for seed in range(first, first + 2):
        checked = check_pair(neighbours(case.relation, seed), case, BUDGETS[currency], seed)
        assert checked.findings == (), f"{checked.kind}, seed {seed}"
        assert checked.questions > 0


@settings(max_examples=12, derandomize=True, deadline=None)
@given(st.sampled_from(CATALOGUE), st.integers(100, 2**32), st.sampled_from(sorted(BUDGETS)))
def test_no_neighbours_are_found_that_tell_a_run_apart(case, seed, currency):
    """Any method on any pair; `make audit` goes through 200 of them for each method and relation."""
    checked = check_pair(neighbours(case.relation, seed), case, BUDGETS[currency], seed)
    assert checked.findings == ()


@pytest.mark.parametrize("case", VARIANTS, ids=named)
def test_nothing_but_paid_answers_depends_on_one_unit_with_other_settings(case):
    seeds = range(1) if case.price else range(8, 10)
    for seed in seeds:
        currency = "pure" if case.price or seed % 2 else "zcdp"
        pair = neighbours(case.relation, seed, plain=case.plain)
        checked = check_pair(pair, case, BUDGETS[currency], seed)
        assert checked.findings == (), f"{checked.kind}, seed {seed}"
        assert checked.questions > 0


def place_pair(relation, kind):
    """Rows in tracts of counties, which differ in one: a new row in a tract where nobody was, or one that moved there."""
    tracts = [f"{county}{i}" for county in "ab" for i in "12"]
    fields = [
        {"name": "tract", "type": "string", "enum": tracts, "other": "a1", "hierarchy": {"county": 1, "tract": 2}},
        *({"name": name, **field} for name, field in FIELDS.items() if name in ("grade", "sex")),
    ]
    schema = Schema.from_dict({"name": "placed", "unit": "row", "neighbours": relation, "fields": fields})
    rows = [{"tract": tracts[i % 3], "grade": "abc"[i % 3], "sex": "FM"[i % 2]} for i in range(30)]
    changed = [*rows[:-1], rows[-1] | {"tract": "b2"}] if relation == "replace" else [*rows, rows[0] | {"tract": "b2"}]
    before, after = (pa.Table.from_pylist(side) for side in (rows, changed))
    return Pair(kind, schema, before, after)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("currency", BUDGETS)
def test_nothing_but_paid_answers_depends_on_where_one_row_is(relation, currency):
    case = Case("aim, places", relation, AIM(rounds=2, planned=[("tract", "sex")]))
    checked = check_pair(place_pair(relation, "a row in an empty place"), case, BUDGETS[currency], 3)
    assert checked.findings == ()
    assert checked.questions > 4


@pytest.mark.slow
@pytest.mark.parametrize("case", PLANNED, ids=named)
def test_nothing_but_paid_answers_depends_on_one_unit_of_planned_analyses(case):
    """In either currency, with several rows of a unit, and with labels that two rows of a unit share."""
    for seed, currency in ((6, "zcdp"), (15 if case.relation == "label" else 9, "pure")):
        checked = check_pair(neighbours(case.relation, seed), case, BUDGETS[currency], seed)
        assert checked.findings == (), f"{checked.kind}, seed {seed}"
        assert checked.questions > 0


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in PLANNED if c.name in ("loglinear, planned", "mst, planned")], ids=named)
def test_files_with_planned_analyses_are_the_same(case, tmp_path):
    """With results, measurements and the ledger."""
    checked = check_pair(neighbours(case.relation, 8), case, PureDP(2), 8, tmp_path, figures=False)
    assert checked.findings == ()
    assert (tmp_path / "one" / "results.json").is_file()


@pytest.mark.parametrize("case", [c for c in CATALOGUE if c.relation == c.method.relations[-1]], ids=named)
@pytest.mark.figures
def test_files_and_ledgers_are_the_same(case, tmp_path):
    """With the ledger charged, several sets and the release written; figures are drawn for one method, and by `make audit`."""
    pair, figures = neighbours(case.relation, 12), case.name == "flat"
    checked = check_pair(pair, case, PureDP(2), 12, tmp_path, sets=2, figures=figures)
    assert checked.findings == ()
    assert (tmp_path / "one" / "card.json").is_file()


def test_tables_held_block_by_block(monkeypatch):
    monkeypatch.setattr("dipsmith.methods.hierarchy.flat.DENSE_CELLS", 4)
    flat = next(c for c in CATALOGUE if c.name == "flat")
    for seed in range(6):
        checked = check_pair(neighbours(flat.relation, seed), flat, PureDP(1), seed)
        assert checked.findings == ()


def test_every_kind_of_neighbour_is_drawn():
    for relation, kinds in KINDS.items():
        drawn = {neighbours(relation, seed).kind for seed in range(len(kinds))}
        assert drawn == set(kinds)
    assert neighbours("add-remove", 5).kind == "empty table"
    sizes = [len(t) for t in (neighbours("add-remove", 5).before, neighbours("add-remove", 5).after)]
    assert min(sizes) == 0 < max(sizes)


# --- the instrument itself: each of its findings must be able to appear ----------------------------


def halve(monkeypatch, where):
    """Half of the noise that was charged for, in two places where a slip could make it."""
    if where == "in the sampler":
        sampled = Observation.on_noise
        monkeypatch.setattr(Observation, "on_noise", lambda self, law, noise: sampled(self, law, noise // 2))
        return
    for law in (DiscreteLaplace, DiscreteGaussian):
        sample = law.sample
        monkeypatch.setattr(law, "sample", lambda self, s, n, sample=sample: sample(self, s, n) // 2)


@pytest.mark.parametrize("case", CATALOGUE, ids=named)
def test_half_noise_is_flagged_for_every_method(case, monkeypatch):
    """Taken away between the charge and the draw, or after the draw."""
    between = CATALOGUE.index(case) % 2 == 0
    if not between:
        halve(monkeypatch, "after the draw")
    with half_noise() if between else nullcontext():
        found = [check_pair(neighbours(case.relation, seed), case, PureDP(1), seed).findings for seed in range(3)]
    assert any(found), "half of the noise went unnoticed"


def test_half_noise_is_flagged_in_every_pair_by_the_declared_scale():
    flat = next(c for c in CATALOGUE if c.name == "flat")
    assert flagged_piece(flat, 3) == {"pairs": 6, "flagged": 6}


@pytest.mark.parametrize("budget", [PureDP("0.5"), ZCDP("0.05")], ids=str)
def test_half_noise_of_a_broken_sampler_shows_in_the_draws(budget, monkeypatch):
    """Σ(x²/variance − 1) over at least 600 draws: six standard deviations have probability below 1e-6 (skewed).

    Half the noise puts a draw's mean at −3/4, which is −7 standard deviations (Laplace) or more. `make audit` pools the
    draws of every method.
    """
    flat = next(c for c in CATALOGUE if c.name == "flat")
    assert abs(pooled(flat, budget, 600)) < 6
    halve(monkeypatch, "in the sampler")
    assert pooled(flat, budget, 600) < -6


def pooled(case, budget, draws):
    total = spread = 0.0
    seed = 0
    while spread < 7 * draws:
        checked = check_pair(neighbours(case.relation, seed), case, budget, seed)
        total += checked.noise[0]
        spread += checked.noise[1] ** 2
        seed += 1
    return total / spread**0.5


def pair_of_codes(relation="add-remove"):
    schema = Schema(
        "t",
        (
            Attribute("a", "string", Categories.of("xy", other="x"), "public"),
            Attribute("b", "string", Categories.of("uvw", other="u"), "private"),
        ),
        Unit(),
        relation,
    )
    one = Codes.of(schema, {"a": np.array([0, 0, 1]), "b": np.array([0, 1, 2])})
    other = Codes.of(schema, {"a": np.array([0, 0, 1]), "b": np.array([0, 1, 1])})
    less = one.take(slice(0, 2))
    return one, (other if relation == "label" else less)


def findings_of(act, relation="add-remove", budget=None):
    """What record and replay say of something done with a curator."""
    budget = budget or PureDP(1)
    one, other = pair_of_codes(relation)
    recording = Recording()
    replay = Replay(recording)
    first, second = Observation(recording), Observation(replay)
    act(Curator.rehearse(one, budget, seed=1, observer=first))
    act(Curator.rehearse(other, budget, seed=1, observer=second))
    replay.close(budget)
    return [*first.strays, *second.strays, *replay.findings]


def table(curator, *names):
    return Marginal.of(curator.schema, names or curator.schema.names)


def test_a_sound_question_has_no_findings():
    assert findings_of(lambda c: c.measure([table(c)], [PureDP(1)])) == []
    assert findings_of(lambda c: c.measure([table(c)], [PureDP(1)]), "label") == []


def test_rows_read_beside_the_curator_are_strays():
    (stray, *_) = findings_of(lambda c: c._rows.count([table(c)]))
    assert "outside every mechanism" in stray


def test_counts_recalled_beside_the_curator_are_strays():
    """Without a pass over rows: another question has counted them before."""
    one, _ = pair_of_codes()
    rows = BatchRows(source(pa.table({"a": ["x", "x", "y"], "b": ["u", "v", "w"]})), one.schema)
    observation = Observation(Recording())
    rows = observed_rows(rows, observation)
    curator = Curator(rows, PureDP(1), stream=Stream.for_testing(1, observation), journal=Rehearsal())
    curator.measure([table(curator)], [PureDP(1)])
    assert observation.strays == []
    rows.count([table(curator, "a")])
    assert observation.strays == ["rows were read outside every mechanism (count)"]


def test_noise_drawn_beside_the_curator_is_a_stray():
    (stray, *_) = findings_of(lambda c: DiscreteLaplace(Fraction(1)).sample(c._stream, 3))
    assert "random bytes" in stray


def test_questions_that_depend_on_rows_are_found():
    def peeking(curator):
        few = curator._rows.codes.rows < 3
        curator.measure([table(curator, "a" if few else "b")], [PureDP(1)])

    assert any("another question" in f for f in findings_of(peeking))


def test_charges_that_depend_on_rows_are_found():
    def act(curator):
        n = curator._rows.codes.rows
        curator.measure([table(curator)], [PureDP(Fraction(n, 10))])

    assert any("another budget" in f for f in findings_of(act))


def test_one_answer_more_is_found():
    def act(curator):
        for _ in range(curator._rows.codes.rows):
            curator.measure([table(curator)], [PureDP("0.1")])

    assert any("on one table only" in f for f in findings_of(act))


def test_a_free_answer_that_differs_is_found(monkeypatch):
    def total(curator):
        answer = curator._rows.total()
        curator._stream.observer.on_public_answer(PublicAnswer(curator, "rows", answer))
        return answer

    monkeypatch.setattr(Curator, "rows", property(total))
    assert any("free" in f for f in findings_of(lambda c: c.rows))


def test_overspending_by_composition_is_found(monkeypatch):
    monkeypatch.setattr(Purse, "take", lambda self, budget: None)

    def act(curator):
        for _ in range(2):
            curator.measure([table(curator)], [PureDP(1)])

    assert any("the transcript cost 2" in f for f in findings_of(act))


class Tally:
    """A score whose declared sensitivity is too small."""

    name = "tally"

    def __init__(self, sensitivity=Fraction(1, 2), both_ways=False):
        self.declared, self.both_ways = sensitivity, both_ways

    def tables(self, candidate):
        return [candidate]

    def value(self, candidate, counts):
        n = float(counts[0].sum())
        return -n if self.both_ways and len(candidate.attributes) == 1 else n

    def sensitivity(self, relation, max_rows):
        return self.declared

    def monotone(self, relation):
        return True


def test_scores_that_move_too_far_are_found():
    def act(curator):
        curator.choose([table(curator), table(curator, "a")], Tally(), PureDP(1))

    assert any("scores differ by 1" in f for f in findings_of(act))


def test_scores_that_are_not_monotone_are_found():
    def act(curator):
        curator.choose([table(curator), table(curator, "a")], Tally(Fraction(1), True), PureDP(1))

    assert any("declared monotone" in f for f in findings_of(act))


def test_empty_cells_without_noise_are_found(monkeypatch):
    drawing = curator_module.noisy_table

    def noised(cells, counts, *others):
        answer = drawing(cells, counts, *others)
        answer.values[counts == 0] = 0
        return answer

    monkeypatch.setattr(curator_module, "noisy_table", noised)
    assert findings_of(lambda c: c.measure([table(c)], [PureDP(1)])) != []


def test_a_stream_that_moves_on_is_replayed():
    """Replayed answers are the recorded ones although the stream is another."""
    one, other = pair_of_codes()
    recording = Recording()
    replay = Replay(recording)
    curator = Curator.rehearse(one, PureDP(1), seed=1, observer=Observation(recording))
    first = curator.measure([table_of(one)], [PureDP(1)])[0]
    again = Curator.rehearse(other, PureDP(1), seed=2, observer=Observation(replay))
    second = again.measure([table_of(other)], [PureDP(1)])[0]
    assert second.values.tolist() == first.values.tolist()
    assert replay.loss == pytest.approx(1)


def table_of(codes):
    return Marginal.of(codes.schema, codes.schema.names)


# --- what the audit has found ----------------------------------------------------------------------


def test_a_sequence_of_targets_pays_for_asking_private_attributes():
    """All tables of two rows over two private columns: how far one row's labels move the score of the order."""
    schema = Schema(
        "t",
        (
            Attribute("p", "string", Categories.of("xy", other="x"), "public"),
            Attribute("s", "string", Categories.of("uv", other="u"), "private"),
            Attribute("t", "string", Categories.of("FGH", other="F"), "private"),
        ),
        Unit(),
        "label",
    )
    for asked, allowed in ((("p",), 1), (("p", "s"), 2)):
        score = Dependence(schema, ("t",), np.array([0.02, 0.08, 0.9]), dict.fromkeys(asked, 0.0))
        assert score.sensitivity("label", 1) == allowed
        widest = 0.0
        rows = list(product(range(2), range(2), range(3)))
        for fixed, (p, s, t) in product(rows, rows):
            for s2, t2 in product(range(2), range(3)):
                values = []
                for row in ((p, s, t), (p, s2, t2)):
                    codes = Codes.of(schema, dict(zip("pst", np.array([fixed, row]).T, strict=True)))
                    counted = Curator.rehearse(codes, PureDP(1), seed=0)._rows
                    values.append([score.value(a, counted.count(score.tables(a))) for a in asked])
                widest = max(widest, float(np.abs(np.subtract(*values)).max()))
        assert widest <= allowed
    # One row of sixty goes from (u, F) to (v, F): both its group that loses it and the one that gains it move away
    # from independence.
    s, t = np.zeros(61, int), np.full(61, 2)
    t[0] = 0
    moved = s.copy()
    moved[0] = 1
    score = Dependence(schema, ("t",), np.array([0.02, 0.08, 0.9]), {"s": 0.0})
    one, other = (MemoryRows(Codes.of(schema, {"p": 0 * t, "s": x, "t": t})) for x in (s, moved))
    tables = score.tables("s")
    difference = score.value("s", other.count(tables)) - score.value("s", one.count(tables))
    assert 1.85 < difference <= 2


def test_people_who_recur_in_blocks_pay_the_sum():
    """A person with a row in each of two blocks moves both: blocks must share the budget."""
    schema = Schema(
        "t",
        (
            Attribute("year", "string", Categories.of("12", other="1"), "public"),
            Attribute("s", "string", Categories.of("uvw", other="u"), "private"),
        ),
        Unit("person", 2),
        "label",
    )
    one, other = (
        Codes.of(schema, {"year": np.array([0, 1, 0]), "s": np.array(labels)}) for labels in ([0, 0, 2], [1, 1, 2])
    )

    def act(curator):
        for child in curator.partition("year", PureDP(1)):
            child.measure([Marginal.of(schema, ["s"])], [child.budget])

    recording = Recording()
    replay = Replay(recording)
    act(Curator.rehearse(one, PureDP(1), seed=1, observer=Observation(recording)))
    act(Curator.rehearse(other, PureDP(1), seed=1, observer=Observation(replay)))
    replay.close(PureDP(1))
    assert replay.findings == []
    # Both rows could lie in one block, which answers at Δ₁ = 4 with ε = 1/2: one row in each costs 1/4 and 1/4.
    assert replay.loss == pytest.approx(0.5)


# --- weighted sums -----------------------------------------------------------------------------------


def add_up_weights(curator):
    """Sums of a weight of 0 to 4 that depends on the public column, bought after another public column was added."""
    (rows,) = curator.count_kinds(np.zeros(curator.rows, np.int64), 1)
    assert rows == curator.rows
    added = Attribute("weight", "integer", singles("integer", 0, 4, missing=False), "public")
    child = curator.with_public_columns(PureDP(1), "analyses", [added], {"weight": np.arange(rows) % 5})
    private = tuple(curator.schema.private)
    child.add_up([WeightedSums(child.schema, (), private, "weight", (0, 1, 2, 3, 4))], [PureDP(1)])


def test_weighted_sums_have_no_findings():
    assert findings_of(add_up_weights, "label") == []


def test_weighted_sums_whose_noise_forgets_the_weights_are_found(monkeypatch):
    monkeypatch.setattr(WeightedSums, "heaviest", 1)
    assert findings_of(add_up_weights, "label") != []


# --- weighted totals of a survey weight -------------------------------------------------------------


def ask_totals(relation):
    """Totals of a weight by region, of rows that differ in a whole unit: two heavy rows in place of nothing, or of others."""
    schema = Schema.from_dict(
        {
            "name": "survey",
            "unit": {"column": "person", "max_rows": 2},
            "neighbours": relation,
            "fields": [
                {"name": "region", "type": "string", "enum": ["n", "s"], "other": "n"},
                {"name": "w", "type": "number", "minimum": 1, "maximum": 9, "role": "weight"},
            ],
        }
    )
    others = [("a", "n", 2.5), ("b", "s", 1.0)]
    worlds = [*others, ("c", "n", 9.0), ("c", "n", 9.0)], others
    worlds = worlds if relation == "add-remove" else (worlds[0], [*others, ("c", "s", 9.0), ("c", "s", 9.0)])

    def act(rows, observer):
        table = pa.table(dict(zip(("person", "region", "w"), map(list, zip(*rows, strict=True)), strict=True)))
        stream = Stream.of(1, observer)
        held = observed_rows(BatchRows(source(table), schema, b"k" * 32), observer)
        curator = Curator(held, PureDP(1), stream=stream, journal=Rehearsal())
        curator.ask(WeightQuestion(WeightTotals(schema, ("region",))), PureDP(1))

    recording = Recording()
    replay = Replay(recording)
    act(worlds[0], Observation(recording))
    act(worlds[1], Observation(replay))
    replay.close(PureDP(1))
    return replay


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_weighted_totals_have_no_findings(relation):
    replay = ask_totals(relation)
    assert replay.findings == []
    assert replay.loss == pytest.approx(1.0)  # the worst neighbours: the whole price is needed


def test_weighted_totals_whose_noise_forgets_the_weights_are_found(monkeypatch):
    monkeypatch.setattr(WeightTotals, "heaviest", 1)
    assert ask_totals("replace").findings != []
