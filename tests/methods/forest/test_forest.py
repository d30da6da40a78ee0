"""The forest: where noise goes, what it costs, what it keeps of the data, and what it refuses."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from dipsmith.counting.count import MemoryRows
from dipsmith.errors import BudgetError, UnsupportedError, UsageError
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.forest.model import Ensemble, ForestModel, LeafTable
from dipsmith.methods.forest.training import Dependence
from dipsmith.methods.forest.tree_shape import LabelledLeaves, TreeShape
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.accountant import total
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured, Partitioned, Supplied
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.protection import Label
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Rule, Schema, Unit

MEMO = {"shrink": False, "marginal_share": 0, "order_share": 0}
"""The trees of the Duke memos: leaves as they are, all of ε in them."""


def column(name, size, role="public"):
    return Attribute(name, "string", Categories.of([str(v) for v in range(size)], other="0"), role)


def schema_of(relation="label", unit=None, rules=(), labels=3):
    return Schema(
        "people",
        (
            column("year", 3),
            column("age", 6),
            column("place", 8),
            column("grade", 5),
            column("sex", 2, "private"),
            column("race", labels, "private"),
        ),
        unit or Unit(),
        relation,
        tuple(rules),
    )


def people(schema, n=4000, seed=0, odds=2.0, spread=0.8):
    """Sex depends on grade and age, race on place, and both on each other with the given log-odds."""
    rng = np.random.default_rng(seed)
    columns = {a.name: rng.integers(0, a.size, n) for a in schema.attributes}
    columns["place"] = np.minimum(rng.geometric(0.35, n) - 1, 7)
    sex = rng.random(n) < expit(spread * (columns["grade"] - 2) + 0.3 * (columns["age"] - 2.5))
    tilt = np.zeros((n, schema["race"].size))
    tilt[:, 1] = odds * sex + 0.2 * columns["place"] - 1.5
    chance = np.exp(tilt) / np.exp(tilt).sum(axis=1, keepdims=True)
    columns["sex"] = sex.astype(int)
    columns["race"] = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    return Codes.of(schema, columns, n)


def recorded(monkeypatch, codes, forest, budget, seed=1):
    """Fit, and return the model with every measurement the curator gave."""
    answers = []
    measure = Curator.measure

    def recording(self, cells, budgets, **options):
        found = measure(self, cells, budgets, **options)
        answers.extend(found)
        return found

    monkeypatch.setattr(Curator, "measure", recording)
    curator = Curator.rehearse(codes, budget, seed=seed)
    return forest.fit(curator), answers, curator


def trees_of(answers):
    return [a for a in answers if isinstance(a.cells, LabelledLeaves)]


def log_loss(model, codes, target):
    p = model.probabilities(codes.project(codes.schema.public))
    return -np.log(p[np.arange(len(codes)), codes[target]]).mean()


def association(first, second, within):
    """The common log-odds ratio of two binary columns within strata (Mantel and Haenszel)."""
    up = down = 0.0
    for stratum in np.unique(within):
        here = within == stratum
        table = np.histogram2d(first[here], second[here], bins=[[-0.5, 0.5, 1.5]] * 2)[0]
        up += table[0, 0] * table[1, 1] / here.sum()
        down += table[0, 1] * table[1, 0] / here.sum()
    return float(np.log(up / down))


# --- where noise goes -----------------------------------------------------------------------------


def test_every_leaf_with_rows_has_a_noisy_count_for_every_label(monkeypatch):
    codes = people(schema_of())
    _, answers, _ = recorded(monkeypatch, codes, Forest(["sex", "race"], trees=2, n_b=20), PureDP("0.5"))
    found = trees_of(answers)
    assert len(found) == 2
    for answer in found:
        leaves = answer.cells.first
        sizes = np.bincount(leaves.index(codes), minlength=leaves.size)
        np.testing.assert_array_equal(answer.totals, sizes)
        noisy = np.ones(answer.cells.size, dtype=bool) if answer.noisy is None else answer.noisy
        np.testing.assert_array_equal(noisy.reshape(-1, 6), np.repeat((sizes > 0)[:, None], 6, axis=1))
        exact = np.bincount(answer.cells.index(codes), minlength=answer.cells.size)
        # At scale 2/0.1875 the noise is 0 with probability .047: over 1000 cells, never twice as often.
        assert (answer.values[noisy] == exact[noisy]).mean() < 0.094
        assert (answer.values[~noisy] == 0).all()


def test_of_two_labels_one_count_is_drawn(monkeypatch):
    codes = people(schema_of())
    _, answers, curator = recorded(monkeypatch, codes, Forest(["sex"], n_b=20), PureDP("0.5"))
    (answer,) = trees_of(answers)
    assert answer.single
    sizes = np.bincount(answer.cells.first.index(codes), minlength=answer.cells.first.size)
    np.testing.assert_array_equal(answer.groups.sum(axis=1), sizes)
    event = next(e for e in curator._journal.events if getattr(e, "cells", "") == answer.cells.key)
    assert event.sensitivity == 1


def test_a_missing_level_makes_two_labels_three(monkeypatch):
    schema = schema_of()
    asked = replace(schema["sex"], domain=replace(schema["sex"].domain, missing=True))
    schema = replace(schema, attributes=tuple(asked if a.name == "sex" else a for a in schema.attributes))
    _, answers, _ = recorded(monkeypatch, people(schema), Forest(["sex"], n_b=50), PureDP(1))
    (answer,) = trees_of(answers)
    assert not answer.single
    assert answer.cells.second.size == 3


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("growth", ["noisy", "synthetic"])
def test_where_nothing_is_public_every_cell_of_every_leaf_is_noisy(monkeypatch, relation, growth):
    codes = people(schema_of(relation))
    _, answers, _ = recorded(monkeypatch, codes, Forest(growth=growth, n_b=60), PureDP(3))
    for answer in trees_of(answers):
        assert answer.noisy is None
        assert answer.totals is None
        assert not answer.single


def test_below_a_private_split_nothing_is_public(monkeypatch):
    codes = people(schema_of())
    forest = Forest(["race", "sex"], leaves="sequential", n_b=40)
    model, answers, curator = recorded(monkeypatch, codes, forest, PureDP(2))
    first, second = trees_of(answers)
    assert first.totals is not None
    assert second.totals is None
    assert second.noisy is None
    assert not second.single  # two labels, but the sizes of its leaves are private
    assert "race" in second.cells.first.attributes
    asked = second.cells.first
    assert set(asked.asks[: asked.levels[1]]) == {asked.columns.index("race")}  # every path asks it first
    event = next(e for e in curator._journal.events if getattr(e, "cells", "") == second.cells.key)
    assert event.sensitivity == 2
    # Growth knows nothing of private splits: the trees below the labels of race have the same shape.
    paths = asked.paths()
    race = asked.columns.index("race")
    shapes = [{tuple(np.delete(p, race)) for p in paths[paths[:, race] == label].tolist()} for label in range(3)]
    assert shapes[0] == shapes[1] == shapes[2]
    assert isinstance(model, ForestModel)


def test_structural_zeros_carry_no_noise_and_no_label(monkeypatch):
    rules = [Rule((("place", (1,)), ("race", (2,))), "no 2 at 1"), Rule((("sex", (0,)), ("race", (1,))), "")]
    schema = schema_of(rules=rules)
    codes = people(schema)
    codes = codes.take(codes.lawful())
    model, answers, _ = recorded(monkeypatch, codes, Forest(["sex", "race"], n_b=30), PureDP(1))
    (answer,) = trees_of(answers)
    paths, place = answer.cells.first.paths(), answer.cells.first.columns.index("place")
    at = np.flatnonzero((paths[:, place] == 1) & (answer.totals > 0))
    assert len(at)
    noisy = answer.noisy.reshape(-1, 6)
    assert not noisy[at][:, [1, 2, 5]].any()
    assert noisy[at][:, [0, 3, 4]].all()
    public = codes.project(schema.public)
    assert model.label(public, 1).lawful().all()
    p = model.probabilities(public)
    assert (p[codes["place"] == 1][:, [1, 2, 5]] == 0).all()


# --- sensitivity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_neighbours_change_the_counts_by_the_sensitivity(rows_per_unit):
    schema = schema_of(unit=Unit("person", rows_per_unit))
    codes = people(schema, 500)
    tree = Forest(["race"], n_b=20, weights=None).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    leaves = tree.blocks[0].ensembles[0].trees[0].tree
    mine = np.arange(rows_per_unit)  # the rows of one person: in different leaves if they can be
    for target, bound in (("race", 2), ("sex", 1)):
        cells = LabelledLeaves(leaves, Marginal.of(schema, [target]))
        changed = np.array(codes[target])
        changed[mine] = (changed[mine] + 1) % schema[target].size
        other = Codes.of(schema, {**codes.columns, target: changed}, 500)
        before, after = (MemoryRows(c).count([cells])[0] for c in (codes, other))
        if target == "sex":  # of two labels only the second is released
            before, after = before.reshape(-1, 2)[:, 1], after.reshape(-1, 2)[:, 1]
        elif len(set(leaves.index(codes.take(mine)))) == rows_per_unit:
            assert np.abs(after - before).sum() == bound * rows_per_unit
        assert np.abs(after - before).sum() <= bound * rows_per_unit
    without = codes.take(slice(rows_per_unit, None))
    cells = LabelledLeaves(leaves, Marginal.of(schema, ["race"]))
    before, after = (MemoryRows(c).count([cells])[0] for c in (codes, without))
    assert np.abs(after - before).sum() == rows_per_unit


def test_the_score_of_an_attribute_is_as_sensitive_as_it_says():
    schema = schema_of()
    rng = np.random.default_rng(0)
    largest = dict.fromkeys(("label", "add-remove", "replace"), 0.0)
    for _ in range(300):
        marginal = rng.dirichlet([0.3, 1, 2])
        score = Dependence(schema, ("race",), marginal, dict.fromkeys(schema.names, 0.0))
        table = rng.integers(0, 4, (8, 3))
        table[0, 0] += 1

        def value(counts, score=score):
            return score.value("place", [counts.ravel()])

        place, race, new_place, new_race = rng.integers(0, [8, 3, 8, 3])
        while table[place, race] == 0:
            place, race = rng.integers(0, [8, 3])
        removed = table.copy()
        removed[place, race] -= 1
        relabelled, moved = removed.copy(), removed.copy()
        relabelled[place, new_race] += 1
        moved[new_place, new_race] += 1
        for relation, other in (("add-remove", removed), ("label", relabelled), ("replace", moved)):
            gap = abs(value(table) - value(other))
            assert gap <= score.sensitivity(relation, 1) + 1e-9
            assert 3 * gap <= score.sensitivity(relation, 3) + 1e-9
            largest[relation] = max(largest[relation], gap)
    assert largest["label"] > 0.9
    assert largest["add-remove"] > 0.9
    assert largest["replace"] > 1.2


def test_growth_reads_public_columns_only():
    codes = people(schema_of())
    shuffled = Codes.of(
        codes.schema,
        {**codes.columns, **{n: np.random.default_rng(1).permutation(codes[n]) for n in ("sex", "race")}},
        len(codes),
    )
    for forest in (Forest(weights=None, trees=3, n_b=30), Forest(weights={"grade": 20}, n_b=30, n_leaf=2)):
        one, other = (
            forest.fit(Curator.rehearse(c, PureDP(1), seed=2)).blocks[0].ensembles[0].trees for c in (codes, shuffled)
        )
        assert [t.tree.key for t in one] == [t.tree.key for t in other]


@pytest.mark.slow
def test_noisy_growth_depends_on_paid_answers_only(monkeypatch):
    schema = schema_of("add-remove")
    forest = Forest(growth="noisy", trees=2, n_b=40)
    tape = []
    measure, choose = Curator.measure, Curator.choose

    def keep(verb):
        def record(self, *args, **options):
            tape.append(verb(self, *args, **options))
            return tape[-1]

        return record

    def play(verb):
        def repeat(self, *args, **options):
            verb(self, *args, **options)
            return tape.pop(0)

        return repeat

    models = []
    for wrap, seed in ((keep, 0), (play, 7)):
        monkeypatch.setattr(Curator, "measure", wrap(measure))
        monkeypatch.setattr(Curator, "choose", wrap(choose))
        models.append(forest.fit(Curator.rehearse(people(schema, 2000, seed), PureDP(2), seed=1)))
    assert tape == []
    for a, b in zip(models[0].state()[1].values(), models[1].state()[1].values(), strict=True):
        np.testing.assert_array_equal(a, b)


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_memos_grid_of_48_settings_costs_108():
    schema, ledger = schema_of(), Ledger(":memory:")
    codes = people(schema, 60)
    ledger.grant("people", PureDP(108), by="office", why="the memo's grid")
    grid = list(product((3, 6), (25, 500), (1, 40), ("0.25", "0.5", "0.75"), (None, 2)))
    assert len(grid) == 48
    for trees, n_b, weight, epsilon, depth in grid:
        budget = PureDP.of_units(trees * PureDP(epsilon).units)
        forest = Forest(["sex"], trees=trees, n_b=n_b, weights={"grade": weight}, max_depth=depth, **MEMO)
        with ledger.reserve("people", budget, protects=Label(Unit(), ("sex",)), source=None, method="forest") as run:
            run.read()
            forest.fit(Curator(MemoryRows(codes), budget, stream=Stream(), journal=run))
            run.finish("0" * 64, "nowhere")
    assert ledger.show("people").spent == 108
    with pytest.raises(BudgetError):
        ledger.reserve(
            "people", PureDP("0.000000000001"), protects=Label(Unit(), ("sex",)), source=None, method="forest"
        )


def test_each_tree_of_the_memos_costs_its_share():
    curator = Curator.rehearse(people(schema_of(), 300), PureDP("0.75"), seed=1)
    Forest(["sex"], trees=3, n_b=25, weights=None, **MEMO).fit(curator)
    assert [e.budget for e in curator._journal.events] == [PureDP("0.25")] * 3
    assert {e.scale for e in curator._journal.events} == {4}  # Δ = 1: of two labels one count


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.1")])
@pytest.mark.parametrize(
    "forest",
    [
        Forest(["sex", "race"], trees=3),
        Forest(["sex", "race"], leaves="sequential"),
        Forest(["sex"], strata="year"),
        Forest(["sex"], weights={"age": 3}, marginal_share=0.0),
        Forest(["race"], growth="noisy"),
    ],
)
def test_plan_and_preview_say_what_the_run_charges(budget, forest):
    schema = schema_of()
    codes = people(schema, 2000)
    curator = Curator.rehearse(codes, budget, seed=1)
    facts = PublicFacts(len(codes), curator.public_rows(schema.public))
    planned, preview = forest.plan(schema, budget, facts), forest.preview(schema, budget, facts)
    forest.fit(curator)
    spent = total(curator._journal.events, budget.currency, "label")
    assert sum(line.budget.units for line in planned) == preview.total.units == spent == budget.units
    json.dumps(preview.to_dict())


def test_preview_shows_depths_and_sizes_from_public_rows():
    schema = schema_of()
    codes = people(schema, 3000)
    facts = PublicFacts(3000, Curator.rehearse(codes, PureDP(1), seed=1).public_rows(schema.public))
    forest = Forest(["sex"], trees=2, n_b=100, weights=None, marginal_share=0.2)
    preview = forest.preview(schema, PureDP(1), facts)
    (shape,) = preview.shapes
    assert sum(shape.rows_by_depth) == 6000  # both trees
    assert shape.leaf_sizes[-1] < 100 or shape.rows_by_depth[-1] > 0
    assert (
        shape.leaf_sizes[0] >= 1 == len({(c.question, c.each) for c in preview.costs if c.question == "label marginal"})
    )
    leaves = next(c for c in preview.costs if c.question == "leaves of a tree")
    assert (leaves.each, leaves.times) == (PureDP("0.4"), 2)
    assert shape.noise == pytest.approx(DiscreteLaplace(1 / PureDP("0.4").exact).variance ** 0.5)
    assert forest.preview(schema, PureDP(1), PublicFacts()).shapes[0].leaves == 0


@pytest.mark.parametrize(
    ("unit", "rule", "each", "all_years"),
    [
        (Unit("id", 1, "year"), "maximum", "0.75", "2.25"),
        (Unit("id", 3), "sum", "0.25", "0.75"),
        (Unit(), "maximum", "0.75", "0.75"),
    ],
)
def test_years_add_up_for_persons_and_not_for_person_years(unit, rule, each, all_years):
    schema = schema_of(unit=unit)
    codes = people(schema, 3000)
    curator = Curator.rehearse(codes, PureDP("0.75"), seed=1)
    forest = Forest(["sex"], strata="year")
    facts = PublicFacts(3000, curator.public_rows(schema.public))
    model = forest.fit(curator)
    events = curator._journal.events
    assert [e.rule for e in events if isinstance(e, Partitioned)] == [rule]
    assert total(events, "epsilon", "label") == PureDP("0.75").units
    for year in range(3):
        paid = sum(e.budget.units for e in events if e.block.startswith(f"year={year}"))
        assert paid == PureDP(each).units
    preview = forest.preview(schema, PureDP("0.75"), facts)
    assert (preview.total, preview.all_strata) == (PureDP("0.75"), PureDP(all_years))
    assert len(model.blocks) == 3
    labelled = model.label(codes.project(schema.public), 1)
    assert len(labelled) == 3000
    assert model.probabilities(codes.project(schema.public)).shape == (3000, 2)
    assert "year" not in model.blocks[0].ensembles[0].columns


def test_a_public_table_made_from_the_private_rows_is_charged():
    schema = schema_of()
    codes = people(schema, 2000)
    other = people(schema, 1000, seed=5).project(schema.public)
    curator = Curator.rehearse(codes, PureDP(1), seed=1)
    forest = Forest(["sex"], public=PublicTable(other, PureDP("0.25"), "last year's release"))
    forest.fit(curator)
    supplied = [e for e in curator._journal.events if isinstance(e, Supplied)]
    assert [(e.what, e.budget) for e in supplied] == [("last year's release", PureDP("0.25"))]
    measured = [e for e in curator._journal.events if isinstance(e, Measured | Chosen)]
    assert sum(e.budget.units for e in measured) == PureDP("0.75").units
    free = Curator.rehearse(codes, PureDP(1), seed=1)
    Forest(["sex"], public=PublicTable(other)).fit(free)
    assert total(free._journal.events, "epsilon", "label") == PureDP(1).units


def test_trees_grown_on_a_public_table_follow_its_counts():
    schema = schema_of()
    codes = people(schema, 2000)
    only = Codes.of(schema, {n: np.zeros(500, int) for n in schema.public}, 500)
    forest = Forest(["sex"], public=PublicTable(only), weights={"age": 100, "place": 10}, n_b=100)
    tree = forest.fit(Curator.rehearse(codes, PureDP(1), seed=1)).blocks[0].ensembles[0].trees[0].tree
    assert tree.depth.max() == 4  # the public rows all stay together
    paths = tree.paths()
    assert (paths[tree.depth == 4] >= 0).all()
    assert tree.size == sum(schema[n].size for n in schema.public) - 3  # only one branch was ever split


@pytest.mark.parametrize("has_years", [True, False])
def test_every_stratum_grows_on_its_own_public_rows(has_years):
    """Counted by hand along every path: a node splits if, and only if, the public rows of its year stand for n_b rows."""
    schema, n_b = schema_of(), 60
    codes = people(schema, 3000)
    other = people(schema, 900, seed=5).project(schema.public)
    year = other["year"] % 2  # no public row is of year 2
    other = Codes.of(
        schema, {**other.columns, "year": year, "place": np.where(year == 0, 0, other["place"])}, len(other)
    )
    table = PublicTable(other if has_years else other.project(["age", "place", "grade"]))
    forest = Forest(["sex"], public=table, strata="year", n_b=n_b, weights=None, **MEMO)
    model = forest.fit(Curator.rehearse(codes, PureDP(1), seed=1))
    for code, block in enumerate(model.blocks):
        tree = block.ensembles[0].trees[0].tree
        own = other.take(other["year"] == code) if has_years else other
        private = int((codes["year"] == code).sum())
        reached = {0: np.arange(len(own))}
        for node in range(len(tree.asks)):
            stands_for = len(reached[node]) * private / max(len(own), 1)
            on_path, up = 0, node
            while (up := tree.parent[up]) >= 0:
                on_path += 1
            assert (tree.asks[node] >= 0) == (stands_for >= n_b and on_path < len(tree.columns))
            if tree.asks[node] >= 0:
                name = tree.columns[tree.asks[node]]
                for label in range(schema[name].size):
                    rows = reached[node]
                    reached[int(tree.first[node]) + label] = rows[own[name][rows] == label]
    assert (len(model.blocks[2].ensembles[0].trees[0].tree.asks) == 1) == has_years


# --- what it keeps --------------------------------------------------------------------------------


def test_joint_leaves_and_authentic_sequences_keep_the_association_and_the_memos_sequence_loses_it():
    schema = schema_of(labels=2)
    codes = people(schema, 60_000, odds=2.0)
    within = Marginal.of(schema, ["place", "grade"]).index(codes)
    public = codes.project(schema.public)
    authentic = association(codes["sex"], codes["race"], within)
    assert authentic == pytest.approx(2.0, abs=0.1)
    settings = {"n_b": 800, "predictors": ["place", "grade"]}
    for leaves in ("joint", "sequential"):
        model = Forest(["sex", "race"], leaves=leaves, **settings).fit(Curator.rehearse(codes, PureDP(1000), seed=1))
        made = model.label(public, 3)
        assert association(made["sex"], made["race"], within) == pytest.approx(authentic, abs=0.1)
    # The memo: the second ensemble is trained on the first one's output instead of the authentic labels.
    first = Forest(["sex"], **settings).fit(Curator.rehearse(codes, PureDP(1000), seed=1)).label(public, 3)
    routed = schema.with_role("sex", "public")
    mixed = Codes.of(routed, {**codes.columns, "sex": first["sex"]}, len(codes))
    second = Forest(["race"], n_b=800, predictors=["place", "grade", "sex"], must_include=["sex"])
    made = second.fit(Curator.rehearse(mixed, PureDP(1000), seed=1)).label(mixed.project(routed.public), 3)
    assert association(made["sex"], made["race"], within) == pytest.approx(0.0, abs=0.1)


def test_an_effect_is_kept_in_proportion_to_the_trees_that_ask_for_it():
    """Attenuation law: if a share s of the trees asks x, the difference due to x is s times the true one."""
    schema = Schema("law", (*(column(f"x{i}", 2) for i in range(6)), column("y", 2, "private")), Unit(), "label")
    rng = np.random.default_rng(1)
    columns = {f"x{i}": rng.integers(0, 2, 50_000) for i in range(6)}
    columns["y"] = (rng.random(50_000) < 0.3 + 0.4 * columns["x0"]).astype(int)
    codes = Codes.of(schema, columns)
    true = codes["y"][codes["x0"] == 1].mean() - codes["y"][codes["x0"] == 0].mean()
    for weight in (1.0, 5.0, 1e9):
        forest = Forest(["y"], trees=60, max_depth=1, weights={"x0": weight}, n_b=10, **MEMO)
        model = forest.fit(Curator.rehearse(codes, PureDP(10_000), seed=1))
        asked = np.mean(["x0" in t.tree.attributes for t in model.blocks[0].ensembles[0].trees])
        assert weight < 10 or asked == 1
        p = model.probabilities(codes.project(schema.public))[:, 1]
        found = p[codes["x0"] == 1].mean() - p[codes["x0"] == 0].mean()
        assert found == pytest.approx(asked * true, abs=0.01)


def test_must_include_is_on_every_path():
    schema = schema_of()
    model = Forest(["sex"], must_include=["grade"], trees=3, n_b=200).fit(
        Curator.rehearse(people(schema), PureDP(1), seed=1)
    )
    for table in model.blocks[0].ensembles[0].trees:
        grade = table.tree.columns.index("grade")
        assert (table.tree.paths()[:, grade] >= 0).all()


def test_the_attribute_that_tells_most_is_asked_first():
    schema = schema_of()
    codes = people(schema, 20_000, spread=1.5)
    firsts = []
    for seed in range(5):
        model = Forest(["sex"]).fit(Curator.rehearse(codes, PureDP("0.5"), seed=seed))
        tree = model.blocks[0].ensembles[0].trees[0].tree
        firsts.append(tree.columns[tree.asks[0]])
    assert firsts == ["grade"] * 5


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.03", "0.1", "1"])
def test_never_materially_worse_than_the_private_marginal(epsilon):
    """Five labels, a weak signal: where the memo's forest is far worse than no forest at all."""
    schema = schema_of(labels=5)
    train, test = people(schema, 8000, seed=1, odds=0.3), people(schema, 8000, seed=2, odds=0.3)
    budget = PureDP(epsilon)
    curator = Curator.rehearse(train, budget, seed=1)
    counts = curator.measure([Marginal.of(schema, ["race"])], [budget])[0].values
    marginal = np.maximum(counts, 1) / np.maximum(counts, 1).sum()
    base = -np.log(marginal[test["race"]]).mean()
    for n_b, trees in ((10, 1), (10, 3), (500, 1)):
        forest = Forest(["race"], n_b=n_b, trees=trees)
        found = np.mean([log_loss(forest.fit(Curator.rehearse(train, budget, seed=s)), test, "race") for s in range(3)])
        assert found < base + 0.01


def test_shrinkage_and_order_beat_the_memos_forest():
    schema = schema_of()
    train, test = people(schema, 20_000, seed=1), people(schema, 20_000, seed=2)
    ours = log_loss(Forest(["sex"]).fit(Curator.rehearse(train, PureDP("0.2"), seed=1)), test, "sex")
    memo = []
    for n_b, trees in product((25, 500, 2000), (1, 3)):
        forest = Forest(["sex"], n_b=n_b, trees=trees, weights=None, **MEMO)
        model = forest.fit(Curator.rehearse(train, PureDP("0.2"), seed=1))
        p = np.clip(model.probabilities(test.project(schema.public)), 1e-3, 1)
        memo.append(-np.log(p[np.arange(len(test)), test["sex"]]).mean())
    assert ours < min(memo) - 0.005


# --- labels ---------------------------------------------------------------------------------------


def test_averaging_trees_is_drawing_one_of_them():
    schema = Schema("two", (column("x", 2), column("y", 3, "private")), Unit(), "label")
    root = TreeShape.root(schema, ["x"])
    p = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1]]
    tables = (
        LeafTable(root.split(np.array([0])), np.array(p[:2], dtype=np.float32)),
        LeafTable(root, np.array(p[2:], dtype=np.float32)),
    )
    ensemble = Ensemble(schema, ("y",), tables)
    rows = Codes.of(schema, {"x": np.zeros(200_000, int)})
    expected = ensemble.probabilities(rows)[0]
    np.testing.assert_allclose(expected, [0.5, 0.4, 0.1], atol=1e-6)
    drawn = np.bincount(ensemble.draw(rows, np.random.default_rng(1))["y"], minlength=3)
    # χ² with 2 degrees of freedom exceeds 27.6 with probability 1e-6
    assert ((drawn - 200_000 * expected) ** 2 / (200_000 * expected)).sum() < 27.6


def test_dead_leaves_are_as_frequent_as_the_law_says_and_no_row_goes_without_a_label():
    """P(all noisy counts ≤ 0 | c rows of one label) for discrete noise, add-remove, ε = 0.25.

    For continuous Laplace noise this is ½·exp(−cε)·2^−(K−1); on integers P(X ≤ −c) = q^c/(1 + q).
    """
    size = 4000
    schema = Schema("dead", (column("x", size), column("y", 2, "private")), Unit(), "add-remove")
    q = np.exp(-0.25)
    tree = TreeShape.root(schema, ["x"]).split(np.array([0]))
    for rows in (0, 1, 2, 5):
        codes = Codes.of(schema, {"x": np.repeat(np.arange(size), rows), "y": np.zeros(size * rows, int)})
        curator = Curator.rehearse(codes, PureDP("0.25"), seed=rows)
        values = curator.measure([LabelledLeaves(tree, Marginal.of(schema, ["y"]))], [PureDP("0.25")])[0].values
        dead = (values.reshape(-1, 2) <= 0).all(axis=1).mean()
        law = q**rows / (1 + q) * 1 / (1 + q)
        # 5 standard errors: false alarm below 1e-6
        assert dead == pytest.approx(law, abs=5 * np.sqrt(law * (1 - law) / size))
    label = replace(schema, neighbours="label")
    held = Codes.of(label, {"x": np.arange(size), "y": np.zeros(size, int)})
    for shrink in (True, False):
        forest = Forest(["y"], n_b=1, shrink=shrink, weights=None)
        model = forest.fit(Curator.rehearse(held, PureDP("0.25"), seed=1))
        p = model.probabilities(held.project(["x"]))
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1)


def test_models_of_different_targets_draw_independently_from_one_seed():
    schema = schema_of(labels=2)
    codes = people(schema, 20_000, odds=0.0, spread=0.0)
    public = codes.project(schema.public)
    sex, race = (
        Forest([t]).fit(Curator.rehearse(codes, PureDP(1), seed=1)).label(public, 3)[t] for t in ("sex", "race")
    )
    # The standard error of a log-odds ratio here is at most .03; five of them.
    assert abs(association(sex, race, np.zeros(len(codes)))) < 0.15


def test_labels_of_rows_never_seen_and_of_few_columns():
    schema = schema_of()
    codes = people(schema, 500)
    model = Forest(["sex", "race"], n_b=20).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    everything = np.indices([schema[n].size for n in schema.public]).reshape(4, -1)
    rows = Codes.of(schema, dict(zip(schema.public, everything, strict=True)))
    labelled = model.label(rows, 1)
    assert set(labelled.names) == set(schema.names)
    assert labelled["race"].max() < 3
    for name in schema.public:
        np.testing.assert_array_equal(labelled[name], rows[name])
    np.testing.assert_array_equal(labelled["sex"], model.label(rows, 1)["sex"])
    with pytest.raises(UsageError, match="no column 'grade'"):
        model.label(rows.project(["year", "age", "place"]), 1)


def test_authentic_labels_beside_the_rows_are_not_used():
    schema = schema_of()
    codes = people(schema, 800)
    model = Forest(["sex", "race"], leaves="sequential").fit(Curator.rehearse(codes, PureDP(1), seed=1))
    bare = model.label(codes.project(schema.public), 5)
    np.testing.assert_array_equal(model.label(codes, 5)["race"], bare["race"])
    np.testing.assert_array_equal(model.label(codes, 5)["sex"], bare["sex"])


def test_probabilities_of_a_sequence_are_those_of_its_labels():
    schema = schema_of(labels=3)
    codes = people(schema, 3000)
    model = Forest(["race", "sex"], leaves="sequential", n_b=300).fit(Curator.rehearse(codes, PureDP(3), seed=1))
    row = codes.project(schema.public).take(np.zeros(60_000, dtype=int))
    p = model.probabilities(row.take(slice(0, 1)))[0]
    made = model.label(row, 2)
    found = np.bincount(made["sex"].astype(int) * 3 + made["race"], minlength=6)
    # χ² with 5 degrees of freedom exceeds 36 with probability 1e-6
    assert ((found - 60_000 * p) ** 2 / (60_000 * p)).sum() < 36


def test_under_label_a_forest_makes_no_rows():
    model = Forest().fit(Curator.rehearse(people(schema_of(), 200), PureDP(1), seed=1))
    with pytest.raises(UsageError, match=r"label\(rows\)"):
        model.sample(10)


# --- whole rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("growth", [None, "noisy"])
def test_whole_rows_keep_pairs(relation, growth):
    schema = schema_of(relation)
    codes = people(schema, 20_000)
    curator = Curator.rehearse(codes, PureDP(4), seed=1)
    model = Forest(growth=growth).fit(curator)
    made = model.sample(seed=1)
    assert set(made.names) == set(schema.names)
    assert abs(len(made) - 20_000) <= (0 if relation == "replace" else 200)
    for pair in (["grade", "sex"], ["sex", "race"], ["place", "age"]):
        cells = Marginal.of(schema, pair)
        shares = [np.bincount(cells.index(c), minlength=cells.size) / len(c) for c in (codes, made)]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.05
    with pytest.raises(UsageError, match="without targets"):
        model.label(codes)


def test_targets_come_last_in_whole_rows_and_can_be_labelled():
    schema = schema_of("add-remove")
    codes = people(schema, 6000)
    model = Forest(["sex", "race"]).fit(Curator.rehearse(codes, PureDP(3), seed=1))
    assert [e.targets for e in model.blocks[0].ensembles][-1] == ("sex", "race")
    made = model.sample(100, seed=1)
    assert len(made) == 100
    assert set(model.label(codes.project(["year", "age", "place", "grade"]), 1).names) == set(schema.names)


def test_whole_rows_by_stratum_keep_the_sizes_of_strata():
    schema = schema_of("add-remove")
    codes = people(schema, 6000).take(slice(0, 6000))
    codes = codes.take(np.flatnonzero((codes["year"] != 1) | (np.arange(6000) % 3 == 0)))
    model = Forest(strata="year").fit(Curator.rehearse(codes, PureDP(3), seed=1))
    made = model.sample(seed=2)
    true = np.bincount(codes["year"], minlength=3)
    assert np.abs(np.bincount(made["year"], minlength=3) - true).max() < 100


def test_state_of_strata_and_sequences_round_trips():
    schema = schema_of()
    codes = people(schema, 900)
    forest = Forest(["sex", "race"], leaves="sequential", strata="year", trees=2)
    model = forest.fit(Curator.rehearse(codes, PureDP(1), seed=1))
    facts, arrays = model.state()
    again = ForestModel.from_state(schema, json.loads(json.dumps(facts)), dict(arrays))
    public = codes.project(schema.public)
    np.testing.assert_array_equal(model.label(public, 1)["race"], again.label(public, 1)["race"])
    broken = {k: v[:-1] if k.endswith("/p") else v for k, v in arrays.items()}
    with pytest.raises(ValueError, match="do not fit"):
        ForestModel.from_state(schema, facts, broken)


# --- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"trees": 0}, "trees is 0"),
        ({"n_b": 0}, "n_b is 0"),
        ({"leaves": "both"}, "leaves is 'both'"),
        ({"weights": "equal"}, "weights is 'equal'"),
        ({"weights": {"age": -1}}, "weight of 'age'"),
        ({"growth": "free"}, "growth is 'free'"),
        ({"growth": "public-data"}, "go together"),
        ({"marginal_share": 1.0}, "marginal_share is 1.0"),
        ({"marginal_share": 0.5, "order_share": 0.4}, "nothing for the leaves"),
        ({"n_leaf": 5, "growth": "noisy"}, "n_leaf"),
    ],
)
def test_contradictory_parameters_are_refused(parameters, message):
    with pytest.raises(UsageError, match=message):
        Forest(**parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"targets": ["age"]}, "target 'age' is public"),
        ({"targets": ["sex"], "predictors": ["race"]}, "'race' is private"),
        ({"targets": ["sex"], "predictors": ["sex"]}, "'sex' is a target"),
        ({"targets": ["sex"], "must_include": ["race"]}, "'race' is private"),
        ({"targets": ["sex"], "strata": "race"}, "'race' is private"),
        ({"targets": ["sex"], "strata": "year", "predictors": ["year"]}, "divides the rows already"),
        ({"targets": ["sex"], "growth": "synthetic"}, "public predictors are free"),
    ],
)
def test_what_a_private_column_may_not_do(parameters, message):
    curator = Curator.rehearse(people(schema_of(), 50), PureDP(1), seed=1)
    with pytest.raises(UsageError, match=message):
        Forest(**parameters).fit(curator)
    assert curator._journal.events == []


def test_exact_counts_are_for_label_only():
    curator = Curator.rehearse(people(schema_of("replace"), 50), PureDP(1), seed=1)
    with pytest.raises(UnsupportedError, match="public only under neighbours 'label'"):
        Forest(growth="public-predictors").fit(curator)


def test_a_public_table_must_have_the_columns_and_leave_some_budget():
    schema = schema_of()
    codes = people(schema, 50)
    short = PublicTable(codes.project(["age"]))
    with pytest.raises(UsageError, match="no column 'year'"):
        Forest(["sex"], public=short).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    dear = PublicTable(codes.project(schema.public), PureDP(1))
    with pytest.raises(UsageError, match="cost"):
        Forest(["sex"], public=dear).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    with pytest.raises(UsageError, match="cannot cover"):
        Forest(["sex"], public=dear).plan(schema, PureDP(1), PublicFacts())
