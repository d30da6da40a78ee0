"""STEPS: what is charged, what is chosen, that counts agree, and when layers are worth it."""

import json
import subprocess
import sys
import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import HopelessNoise, SchemaError, UnsupportedError, UsageError
from dipsmith.methods.hierarchy.layers import LayerCells
from dipsmith.methods.hierarchy.noisy_tree import TreeModel
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.accountant import total
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured, Partitioned
from dipsmith.schema import Attribute, Categories, Codes, Rule, Schema, Unit
from selection_law import selection_probabilities

SIZES = {"vote": 2, "degree": 2, "age": 5, "income": 7, "home": 3}
RULES = (Rule((("vote", (1,)), ("home", (2,)))),)


def schema_of(relation="replace", rules=RULES, unit=None, **sizes):
    listed = {n: Categories.of([str(i) for i in range(k)], other="0") for n, k in (sizes or SIZES).items()}
    return Schema("t", tuple(Attribute(n, "string", d) for n, d in listed.items()), unit or Unit(), relation, rules)


def people(schema, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.random(n)
    columns = {
        a.name: np.minimum((a.size * (0.5 * latent + 0.5 * rng.random(n)) ** 2).astype(int), a.size - 1) for a in schema
    }
    codes = Codes.of(schema, columns, n)
    return codes.take(codes.lawful())


def fitted(method, relation="replace", epsilon="1", codes=None, seed=1, rows=None):
    codes = people(schema_of(relation)) if codes is None else codes
    curator = Curator.rehearse(codes, ds.PureDP(epsilon), given_rows=rows, seed=seed)
    return method.fit(curator), curator._journal.events


# --- what is charged ---------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("layers", [[], [["vote"]], [["vote"], ["degree"]], [["vote", "age"], ["degree"], ["home"]]])
def test_every_level_that_gets_noise_is_charged(relation, layers):
    """L layers and the leaves are L + 1 levels; the row count is one more where it is private."""
    model, events = fitted(ds.Steps(layers=layers), relation)
    assert all(isinstance(e, Measured) for e in events)
    assert len(events) == len(layers) + 1 + (relation == "add-remove")
    assert sum(e.budget.units for e in events) == ds.PureDP(1).units
    assert [e.size for e in events][-1] == 420
    assert model.noisy.variances[0] == 0 or relation == "add-remove"
    assert all(v < np.inf for v in model.noisy.variances)


def test_a_given_row_count_is_not_measured():
    codes = people(schema_of("add-remove"))
    model, events = fitted(ds.Steps(layers=[["vote"]]), "add-remove", codes=codes, rows=len(codes))
    assert len(events) == 2
    assert model.noisy.estimates[0] == len(codes)


def test_larger_levels_get_more_by_the_cube_root_rule():
    _, events = fitted(ds.Steps(layers=[["vote"], ["age"]]))
    shares = [float(e.budget.exact) for e in events]
    cells = np.array([2, 10, 420 - 70])  # of the leaves those that no rule forbids
    assert shares == pytest.approx((cells ** (1 / 3) / (cells ** (1 / 3)).sum()).tolist(), rel=1e-6)


def test_given_weights_are_used():
    _, events = fitted(ds.Steps(layers=[["vote"]], layer_weights=[1, 3]))
    assert [e.budget for e in events] == [ds.PureDP("0.25"), ds.PureDP("0.75")]
    model, events = fitted(ds.Steps(layers=[["vote"]], layer_weights=[1, 3]), "add-remove")
    assert [e.cells for e in events] == ["vote", "vote × degree × age × income × home"]
    assert model.noisy.variances[0] == np.inf  # known from the sums below it
    _, events = fitted(ds.Steps(layers=[["vote"]], layer_weights=[1, 1, 2]), "add-remove")
    assert [e.budget for e in events] == [ds.PureDP("0.25"), ds.PureDP("0.25"), ds.PureDP("0.5")]


def test_weights_that_do_not_fit_are_refused_before_anything_is_spent():
    for method in (
        ds.Steps(layers=[["vote"]], layer_weights=[1, 1, 1]),
        ds.Steps(layers=2, layer_weights=[1, 1]),
    ):
        curator = Curator.rehearse(people(schema_of()), ds.PureDP(1), seed=1)
        with pytest.raises(UsageError, match="layer_weights"):
            method.fit(curator)
        assert curator._journal.events == []


def test_a_last_layer_that_makes_single_cells_is_the_leaves():
    _, events = fitted(ds.Steps(layers=[["vote", "age"], ["degree", "income", "home"]]))
    assert [e.size for e in events] == [10, 420]


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("select", ["aic", "bic", "marginal-error"])
@pytest.mark.parametrize("same_order", [False, True])
def test_choices_and_counts_cost_the_budget_together(relation, select, same_order):
    codes = people(schema_of(relation))
    method = ds.Steps(layers=2, select=select, same_order=same_order)
    _, events = fitted(method, relation, codes=codes, rows=len(codes))
    assert total(events, "epsilon", relation) == ds.PureDP(1).units
    chosen = [e for e in events if isinstance(e, Chosen)]
    if same_order:
        assert len(chosen) == 2
        assert [e.budget for e in chosen] == [ds.PureDP("0.05")] * 2
    else:
        assert chosen[0].budget == ds.PureDP("0.05")
        assert len(chosen) > 2
        within = ds.PureDP("0.05") if relation == "add-remove" else ds.PureDP("0.025")
        assert all(e.budget == within for e in chosen[1:])
        assert sum(isinstance(e, Partitioned) for e in events) == 1
    measured = sum(e.budget.units for e in events if isinstance(e, Measured))
    assert measured == ds.PureDP("0.9").units


def test_choices_that_turn_out_not_to_be_needed_are_paid_to_the_counts():
    schema = schema_of("replace", rules=(), a=3, b=5, c=5, y=2, z=4)
    codes = Codes.of(schema, {a.name: np.full(300, a.size - 1) for a in schema}, 300)
    planned = ds.Steps().plan(schema, ds.PureDP("0.5"), PublicFacts(300))
    choices = set()
    for seed in range(6):
        _, events = fitted(ds.Steps(), epsilon="0.5", codes=codes, seed=seed)
        assert total(events, "epsilon", "replace") == ds.PureDP("0.5").units
        choices.add(sum(isinstance(e, Chosen) for e in events))
    assert planned[0].what.startswith("3 layers")
    assert choices == {2, 3}, "the case no longer ends early"


def test_nothing_is_paid_for_a_choice_without_alternatives():
    codes = people(schema_of(rules=(), a=3, b=2))
    model, events = fitted(ds.Steps(layers=5), codes=codes)
    assert len([e for e in events if isinstance(e, Chosen)]) == 1  # a or b first; the other makes the leaves
    assert model.noisy.hierarchy.depth == 1
    _, events = fitted(ds.Steps(layers=2), codes=people(schema_of(rules=(), a=3, b=1)))
    assert [type(e) for e in events] == [Measured]


# --- choices -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("select", ["aic", "marginal-error"])
def test_the_joint_loss_of_all_choices_is_within_what_was_paid(relation, select, monkeypatch):
    """Every outcome of two layers of choices, on a table and many neighbours: loss ≤ share · ε.

    The candidates' probabilities are computed exactly for the scores, sensitivities and rates with which
    the code calls the mechanism; the outcome is the whole tree.
    """
    schema = schema_of(relation, (), a=2, b=2, c=3)
    asked: list[tuple[float, ...]] = []
    script: list[int] = []

    def scripted(stream, scores, sensitivity, epsilon, *, monotone, law):
        chances = selection_probabilities(scores, sensitivity, epsilon, monotone=monotone, law=law, digits=15)
        winner = script[len(asked)]
        asked.append(float(chances[winner]))
        return winner

    monkeypatch.setattr("dipsmith.privacy.curator.select", scripted)
    method = ds.Steps(layers=2, select=select, share=0.5)

    def law_of(cells):
        codes = np.repeat(np.arange(12), cells)
        columns = dict(zip("abc", np.unravel_index(codes, (2, 2, 3)), strict=True))
        held = Codes.of(schema, columns, len(codes))
        chances = {}
        for root in range(3):
            children = 3 if root == 2 else 2
            for below in product(range(2), repeat=children):
                script[:] = [root, *below]
                asked.clear()
                curator = Curator.rehearse(held, ds.PureDP(2), given_rows=30, seed=0)
                method._own_orders(curator.nested(ds.PureDP(1), "order"), stages_of(method, curator))
                assert len(asked) == 1 + children
                chances[root, below] = np.prod(asked)
        assert sum(chances.values()) == pytest.approx(1)
        return chances

    base = np.array([5, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 9])
    here = law_of(base)
    worst = 0.0
    for leaves in np.flatnonzero(base):
        for enters in [None] if relation == "add-remove" else (1, 3, 6, 10):
            if enters == leaves:
                continue
            other = base.copy()
            other[leaves] -= 1
            if enters is not None:
                other[enters] += 1
            there = law_of(other)
            worst = max(worst, *(abs(np.log(here[o] / there[o])) for o in here))
    assert worst <= 1.0
    assert worst > 0.3


def stages_of(method, curator):
    return method._stages(curator.schema, curator.relation, curator.budget, curator.rows)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("arguments", [{"layers": 2}, {"layers": 2, "same_order": True}, {"groups": 2}])
def test_nothing_but_the_answers_decides_what_follows(relation, arguments, monkeypatch):
    """With every mechanism's output frozen, other rows give the same tree, the same counts, the same charges."""
    tape: list[object] = []
    answers = {verb: getattr(Curator, verb) for verb in ("measure", "choose")}

    def recorded(verb):
        def record(self, *args):
            tape.append(answers[verb](self, *args))
            return tape[-1]

        return record

    def replayed(verb):
        def replay(self, *args):
            answers[verb](self, *args)
            return tape.pop(0)

        return replay

    found = []
    for seed, play in ((0, recorded), (9, replayed)):
        with monkeypatch.context() as patch:
            for verb in answers:
                patch.setattr(Curator, verb, play(verb))
            schema = schema_of(relation, rules=())
            found.append(fitted(ds.Steps(**arguments), codes=people(schema, 2000, seed), relation=relation))
    (first, charged), (second, charged_again) = found
    assert tape == []
    assert charged == charged_again
    assert first.state()[0] == second.state()[0]
    assert all(np.array_equal(a, second.state()[1][k]) for k, a in first.state()[1].items())


def test_blocks_answer_at_the_rate_of_their_relation():
    """Under replace a block may gain or lose a row: a monotone score at half the budget there."""
    _, events = fitted(ds.Steps(layers=2, select="aic"), "replace")
    chosen = [e for e in events if isinstance(e, Chosen)]
    assert {e.sensitivity for e in chosen} == {Fraction(2)}
    _, events = fitted(ds.Steps(layers=2, select="marginal-error"), "replace")
    assert {e.sensitivity for e in events if isinstance(e, Chosen)} == {Fraction(1)}
    _, events = fitted(ds.Steps(layers=2, select="marginal-error", same_order=True), "replace")
    assert [e.sensitivity for e in events if isinstance(e, Chosen)] == [1, 2]


def test_with_much_budget_the_best_column_divides():
    schema = schema_of(rules=())
    rng = np.random.default_rng(0)
    columns = {a.name: rng.integers(0, a.size, 5000) for a in schema}
    columns["income"] = np.where(rng.random(5000) < 0.9, 3, columns["income"])
    columns["degree"] = (rng.random(5000) < 0.02).astype(int)
    codes = Codes.of(schema, columns)
    first = fitted(ds.Steps(layers=1, select="marginal-error"), codes=codes, epsilon="40")[0]
    assert first.noisy.hierarchy.order == (("income",),)  # 5000·(0.9 − 1/7) rows would be misplaced
    second = fitted(ds.Steps(layers=1, select="aic"), codes=codes, epsilon="40")[0]
    assert second.noisy.hierarchy.order == (("degree",),)  # few levels, very skewed
    third = fitted(ds.Steps(layers=1, select="bic"), codes=codes, epsilon="40")[0]
    assert third.noisy.hierarchy.order == (("degree",),)


def test_branches_have_their_own_order():
    schema = schema_of(rules=(), a=2, b=3, c=3)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 6000)
    even, skewed = rng.integers(0, 3, 6000), np.where(rng.random(6000) < 0.95, 1, 0)
    codes = Codes.of(schema, {"a": a, "b": np.where(a == 0, skewed, even), "c": np.where(a == 0, even, skewed)})
    method = ds.Steps(layers=2, select="marginal-error", groups=[["a"], ["b"], ["c"]])
    model, events = fitted(method, codes=codes, epsilon="50")
    layers = model.noisy.hierarchy
    if layers.layers[0].groups == (("a",),):
        assert [layers.layers[1].groups[i] for i in layers.layers[1].group_of] == [("b",), ("c",)]
    assert isinstance(layers.levels[2], LayerCells)
    assert total(events, "epsilon", "replace") == ds.PureDP(50).units
    # and with so little noise the table is the true one, whatever the order of its leaves
    true = np.bincount(np.ravel_multi_index([codes[n] for n in "abc"], (2, 3, 3)), minlength=18)
    assert np.abs(model.noisy.cells("project") - true).max() < 2


def test_groups_divide_together():
    method = ds.Steps(layers=1, groups=[["vote", "degree"], ["age", "home"]])
    model, _ = fitted(method, epsilon="20")
    (first,) = model.noisy.hierarchy.order
    assert first in {("vote", "degree"), ("age", "home"), ("income",)}
    layered, events = fitted(ds.Steps(layers=2, groups=[["vote", "degree"]], select="aic"), epsilon="5")
    assert layered.noisy.hierarchy.depth == 2
    assert total(events, "epsilon", "replace") == ds.PureDP(5).units


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_two_groups_are_chosen_as_ordered_candidates(relation):
    """Five columns: the paper's 15 pairs, each way round."""
    codes = people(schema_of(relation))
    model, events = fitted(ds.Steps(groups=2, select="aic"), relation, epsilon="200", codes=codes)
    (choice,) = [e for e in events if isinstance(e, Chosen)]
    assert choice.candidates == 30
    assert choice.score == "contrast of aic"
    assert choice.sensitivity == (2 if relation == "add-remove" else 4)
    assert model.noisy.hierarchy.depth == 1
    assert len(model.noisy.hierarchy.order[0]) < 5
    with pytest.raises(UsageError, match="12 columns"):
        fitted(ds.Steps(groups=2), codes=people(schema_of(rules=(), **{f"x{i}": 2 for i in range(13)})))
    wide = schema_of(rules=(), **{f"x{i}": 2 for i in range(13)})
    with pytest.raises(UsageError, match="12 columns"):
        ds.Steps(groups=2).plan(wide, ds.PureDP(1), PublicFacts(3000))


@pytest.mark.parametrize("rows", [0, 2999, 10**6])
def test_noise_that_is_0_to_double_precision_does_not_make_counts_exact(rows):
    """A stated row count that is not the true one, or rows that break a rule, would else make the run fail."""
    codes = people(schema_of("add-remove"))
    model, _ = fitted(ds.Steps(layers=2), "add-remove", "10000", codes, rows=rows)
    assert model.rows == rows
    assert len(model.sample(50, seed=1)) == 50


def test_units_with_several_rows_share_one_order():
    codes = people(schema_of("replace", unit=Unit("person", 3)))
    _, events = fitted(ds.Steps(layers=2, select="aic"), codes=codes)
    chosen = [e for e in events if isinstance(e, Chosen)]
    assert [e.sensitivity for e in chosen] == [6, 6]
    assert not any(isinstance(e, Partitioned) for e in events)


def test_bic_needs_a_public_row_count():
    with pytest.raises(UnsupportedError, match=r"K·log 2.*'aic'"):
        fitted(ds.Steps(select="bic"), "add-remove")
    codes = people(schema_of("add-remove"))
    _, events = fitted(ds.Steps(layers=1, select="bic"), "add-remove", codes=codes, rows=len(codes))
    assert {e.score for e in events if isinstance(e, Chosen)} == {"bic"}


# --- auto --------------------------------------------------------------------------------------------


def test_auto_uses_no_layer_while_the_table_is_readable():
    model, events = fitted(ds.Steps(), epsilon="2")
    assert model.noisy.hierarchy.depth == 0
    assert [type(e) for e in events] == [Measured]
    assert events[0].budget == ds.PureDP(2)


def test_auto_stops_where_a_layer_would_be_hopeless():
    depths = {}
    for epsilon in ("0.0005", "0.005", "0.05", "0.2", "2"):
        model, _ = fitted(ds.Steps(), epsilon=epsilon)
        depths[epsilon] = model.noisy.hierarchy.depth
    assert depths["0.0005"] == depths["2"] == 0  # nothing is readable, or everything
    assert 0 < depths["0.05"] < 5
    assert depths["0.005"] <= depths["0.05"]


def test_auto_takes_two_layers_when_the_row_count_is_private():
    model, _ = fitted(ds.Steps(), "add-remove", epsilon="0.1")
    assert model.noisy.hierarchy.depth == 2


@pytest.mark.slow
def test_auto_leaves_branches_of_different_length():
    """A branch that has used the column with 6 values has smaller nodes, and stops earlier."""
    schema = schema_of(rules=(), a=2, b=2, c=2, d=6, e=40, f=40)
    codes = people(schema, 4000)
    stopped = 0
    for seed in range(8):
        method = ds.Steps(same_order=False, share=0.0001)  # as good as a random order
        model, events = fitted(method, codes=codes, epsilon="0.07", seed=seed)
        assert total(events, "epsilon", "replace") == ds.PureDP("0.07").units
        last = model.noisy.hierarchy.layers[-1]
        groups = [last.groups[i] for i in last.group_of]
        stopped += () in groups and any(groups)
        made = model.noisy.counts("project")
        for family in model.noisy.tree.families():
            assert family.sums(made[family.children]) == pytest.approx(made[family.nodes], abs=1e-7)
    assert stopped > 0


def test_weights_survive_branches_that_stop():
    """Weights are for the layers that public facts allow; a layer in which all branches stop is kept for them."""
    schema = schema_of(rules=(), a=2, b=2, c=2, d=6, e=40, f=40)
    codes = people(schema, 4000)
    depths = set()
    for seed in range(8):
        method = ds.Steps(share=0.0001, layer_weights=[1, 1, 1, 5])
        model, events = fitted(method, codes=codes, epsilon="0.05", seed=seed)
        assert model.noisy.hierarchy.depth == 3
        assert sum(isinstance(e, Measured) for e in events) == 4
        depths.add(model.noisy.hierarchy.order[-1] == ())
    assert depths == {True, False}


# --- counts ------------------------------------------------------------------------------------------


def test_upper_marginals_are_more_precise_than_flat_and_cells_are_not():
    codes = people(schema_of(rules=()))
    layered = fitted(ds.Steps(layers=[["vote"], ["age"]], layer_weights=[1, 1, 1]), codes=codes)[0]
    flat = fitted(ds.Steps(layers=0), codes=codes)[0]
    by_vote = [m.count({"vote": "1"}).standard_error for m in (layered, flat)]
    by_both = [m.count({"vote": "1", "age": "2"}).standard_error for m in (layered, flat)]
    one_cell = dict.fromkeys(schema_of().names, "0")
    cell = [m.count(one_cell).standard_error for m in (layered, flat)]
    assert by_vote[0] < 0.5 * by_vote[1]
    assert by_both[0] < by_both[1]
    assert cell[0] > cell[1]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_answers_cover_the_truth(relation):
    # 200 fits, 2 questions: a 95 % interval covers 380 ± 4.4 (sd; 6.2 if the two always go together) of 400.
    # Six sd: 343.
    codes = people(schema_of(relation))
    truth = [int((codes["vote"] == 1).sum()), int(((codes["age"] == 2) & (codes["vote"] == 0)).sum())]
    covered = 0
    for seed in range(200):
        model, _ = fitted(ds.Steps(layers=[["vote"], ["age"]]), relation, "0.4", codes, seed)
        answers = [model.count({"vote": "1"}), model.count({"age": "2", "vote": "0"})]
        covered += sum(a.interval[0] <= t <= a.interval[1] for a, t in zip(answers, truth, strict=True))
    assert 343 <= covered <= 398


@pytest.mark.parametrize("post", ["project", "clip"])
@pytest.mark.parametrize("method", [{"layers": [["vote"], ["home"]]}, {"layers": 2}, {"groups": 2}, {}])
def test_structural_zeros_are_never_produced(post, method):
    model, _ = fitted(ds.Steps(post=post, **method), epsilon="0.05")
    rows = model.sample(20_000, seed=1)
    assert len(rows) == 20_000
    assert rows.lawful().all()
    assert model.count({"vote": "1", "home": "2"}).value == 0


def test_projection_beats_clipping_on_sparse_tables():
    schema = schema_of(rules=(), a=2, b=4, c=20, d=20)
    codes = people(schema, 2000)
    true = np.bincount(np.ravel_multi_index([codes[n] for n in "abcd"], (2, 4, 20, 20)), minlength=3200)
    errors = {
        post: np.mean(
            [
                np.abs(
                    fitted(ds.Steps(layers=[["a"], ["b"]], post=post), codes=codes, epsilon="10", seed=s)[
                        0
                    ].noisy.cells(post)
                    - true
                ).sum()
                for s in range(8)
            ]
        )
        for post in ("project", "clip")
    }
    assert errors["project"] < 0.95 * errors["clip"]


def test_own_orders_survive_saving():
    model, _ = fitted(ds.Steps(layers=2), epsilon="3")
    facts, arrays = model.state()
    again = TreeModel.from_state(model.schema, json.loads(json.dumps(facts)), dict(arrays))
    first, second = model.sample(300, seed=2), again.sample(300, seed=2)
    assert all(np.array_equal(first[n], second[n]) for n in model.schema.names)


def test_several_sets_split_the_budget():
    schema = ds.Schema.from_dict(
        {
            "name": "t",
            "unit": "row",
            "neighbours": "replace",
            "fields": [
                {"name": "vote", "type": "boolean"},
                {"name": "age", "type": "integer", "minimum": 18, "maximum": 22},
                {"name": "home", "type": "string", "enum": ["x", "y", "z"], "other": "x"},
            ],
        }
    )
    rng = np.random.default_rng(0)
    frame = pa.table(
        {
            "vote": rng.random(800) < 0.3,
            "age": rng.integers(18, 23, 800),
            "home": rng.choice(["x", "y", "z"], 800),
        }
    )
    release = ds.synthesize(
        frame,
        schema,
        ds.Steps(layers=[["vote"]]),
        budget=ds.PureDP(1),
        sets=4,
        each="split",
        testing=True,
        noise_seed=1,
    )
    assert len(release.tables) == 4
    assert all(t.num_rows == 800 for t in release.tables)
    assert not release.tables[0].equals(release.tables[1])


# --- plans and parameters ----------------------------------------------------------------------------


def test_plan_is_what_is_charged_when_the_order_is_public():
    schema = schema_of("add-remove")
    method = ds.Steps(layers=[["vote"], ["degree"]])
    planned = method.plan(schema, ds.PureDP(1), PublicFacts())
    _, events = fitted(method, "add-remove")
    assert [p.budget for p in planned] == [e.budget for e in events]
    assert [p.stage for p in planned] == ["row count", "layer 1", "layer 2", "leaves"]
    assert planned[-1].cells == 350


def test_hopeless_noise_is_said_before_it_is_bought():
    schema = schema_of()
    method = ds.Steps(layers=[["vote"]])
    hopeless = method.plan(schema, ds.PureDP("0.02"), PublicFacts(rows=3000))[-1]
    assert "hopeless" in hopeless.note
    assert "mst or aim" in hopeless.note
    assert "only sums over the layers" in hopeless.note
    fine = method.plan(schema, ds.PureDP(5), PublicFacts(rows=3000))[-1]
    assert "flat" in fine.note
    layer = method.plan(schema, ds.PureDP("0.00005"), PublicFacts(rows=3000))[0]
    assert "hopeless" in layer.note


def test_noise_that_outweighs_any_usual_table_is_said_without_a_row_count():
    schema = schema_of()
    assert ds.Flat().plan(schema, ds.PureDP(1), PublicFacts())[-1].note == ""
    for method in (ds.Steps(layers=[["vote"]]), ds.Flat(), ds.Universal(depth=1)):
        last = method.plan(schema, ds.PureDP("0.0001"), PublicFacts())[-1]
        assert "hopeless unless there are many more rows" in last.note
        assert "mst or aim" in last.note


@pytest.mark.parametrize("method", [ds.Flat(), ds.Steps(layers=[["vote"]]), ds.Universal(depth=1)])
def test_synthesize_warns_while_nothing_is_spent(method, tmp_path):
    """As an error the warning stops the run, and the ledger holds no spending; as a warning it does not."""
    schema = schema_of("add-remove", rules=())
    rng = np.random.default_rng(0)
    frame = pa.table({a.name: rng.choice(list(a.domain.labels), 1000) for a in schema})
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant(schema.name, ds.PureDP(1), by="me", why="test")
    run = {"budget": ds.PureDP("0.1"), "ledger": ledger, "known_rows": 1000}
    with pytest.raises(HopelessNoise, match=r"against 1,000 rows; .*mst or aim"):
        ds.synthesize(frame, schema, method, **run)  # warnings are errors here
    assert ledger.show(schema.name).spent_units == 0
    with pytest.warns(HopelessNoise, match="mst or aim"):
        assert ds.synthesize(frame, schema, method, **run).tables[0].num_rows == 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.synthesize(frame, schema, ds.MST(), **run)


def test_chosen_orders_are_planned_as_a_line():
    steps = ds.Steps(layers=2).plan(schema_of(), ds.PureDP(1), PublicFacts(rows=3000))
    assert [s.stage for s in steps] == ["order", "layer 1", "layer 2", "leaves"]
    assert steps[0].budget == ds.PureDP("0.1")
    assert sum(s.budget.units for s in steps) == ds.PureDP(1).units


def test_tables_beyond_reach_are_refused():
    schema = schema_of(rules=(), **{f"x{i}": 30 for i in range(6)})
    with pytest.raises(UsageError, match="use mst, aim"):
        ds.Steps().plan(schema, ds.PureDP(1), PublicFacts(rows=100))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"layers": "deep"}, "'auto'"),
        ({"layers": -1}, "0 or more"),
        ({"layers": [["vote"]], "groups": [["age"]]}, "given"),
        ({"groups": 3}, "or 2"),
        ({"groups": 2, "layers": 1}, "or 2"),
        ({"groups": [["vote"], ["vote", "age"]]}, "two groups"),
        ({"select": "chi2"}, "aic"),
        ({"share": 0}, "share"),
        ({"layer_weights": [1, 0]}, "above 0"),
        ({"post": "round"}, "clip"),
        ({"layers": [["vote"], ["vote"]]}, "already divided"),
    ],
)
def test_wrong_parameters(arguments, match):
    with pytest.raises(UsageError, match=match):
        fitted(ds.Steps(**arguments))


def test_unknown_columns_are_named():
    with pytest.raises(SchemaError, match="'turnout'"):
        fitted(ds.Steps(layers=[["turnout"]]))


LARGE = """
import re, time
from pathlib import Path
import dipsmith as ds
from dipsmith.examples import voters
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes

people = Codes.of(voters.schema(), voters.codes())
order = [["voted"], ["college_degree"], ["preregistration_state"]]
for method in (ds.Flat(), ds.Steps(layers=order), ds.Steps(layers=order, post="clip"), ds.Universal(), ds.Steps()):
    started = time.process_time()
    rows = method.fit(Curator.rehearse(people, ds.PureDP(1), seed=1)).sample(seed=1)
    assert len(rows) == len(people) and rows.lawful().all()
    # The process's own peak: getrusage would tell that of the process that started it, where that is larger.
    peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
    print(method.name, time.process_time() - started, peak)
"""


@pytest.mark.slow
def test_the_youth_voter_table_takes_seconds_and_less_than_a_gigabyte():
    """1,290,240 possible cells of 1,720,320, in a process of its own."""
    ran = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [line[0] for line in lines] == ["flat", "steps", "steps", "universal", "steps"]
    assert all(float(seconds) < 10 for _, seconds, _ in lines)
    assert int(lines[-1][2]) < 1_000_000  # kilobytes
