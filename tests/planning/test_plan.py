"""The plan as a whole: stages, widths, and the budget that a width needs."""

import json

import pytest
from planning_tables import facts, method, rows, schema

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.hierarchy.flat import Flat
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.outlook import outlook_of
from dipsmith.planning.label_width import label_widths, rate
from dipsmith.planning.leaf_interval import interval
from dipsmith.planning.plan import budget_for_width, plan
from dipsmith.planning.price import solve
from dipsmith.privacy.budget import ZCDP, PureDP

CASES = [(name, relation) for name, made in METHODS.items() for relation in made.relations]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), CASES)
def test_stages_add_up_to_the_budget(name, relation):
    codes = rows(relation)
    made = plan(codes.schema, method(name, relation), PureDP(1), public=facts(codes))
    assert sum(s.share for s in made.stages) == pytest.approx(1)
    assert sum(s.budget.units for s in made.stages) == sum(s.budget.units for s in made.steps)
    assert sum(s.questions for s in made.stages) == len(made.steps)
    assert len({s.name for s in made.stages}) == len(made.stages)
    assert not any(ch.isdigit() for s in made.stages for ch in s.name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), CASES)
def test_is_complete_as_json(name, relation):
    codes = rows(relation)
    made = plan(codes.schema, method(name, relation), ZCDP("0.1"), public=facts(codes))
    said = json.loads(json.dumps(made.to_dict()))
    assert len(said["errors"]) == 15
    assert said["seconds"] > 0
    assert said["memory_bytes"] > 0
    assert bool(said["labels"]["widths"]) == (relation == "label")


def test_sets_that_are_sanitised_apart_are_planned_with_their_share():
    codes = rows("replace")
    whole, split, drawn = (
        plan(codes.schema, method("flat", "replace"), PureDP(1), public=facts(codes), sets=sets, each=each)
        for sets, each in ((1, None), (4, "split"), (4, "draw"))
    )
    assert split.errors[0].count_sd > 3.5 * whole.errors[0].count_sd
    assert drawn.errors == whole.errors
    with pytest.raises(UsageError, match="split"):
        plan(codes.schema, method("flat", "replace"), PureDP(1), sets=2)
    with pytest.raises(UnsupportedError):
        plan(schema("label"), method("flat", "replace"), PureDP(1))


# --- where labels are made ------------------------------------------------------------------------


def test_widths_of_a_forest_are_those_of_its_leaves():
    codes = rows("label")
    forest = Forest(targets=("sex",), n_b=200, weights=None)
    made = plan(codes.schema, forest, PureDP(1), public=facts(codes))
    (found,) = made.widths
    preview = forest.preview(codes.schema, PureDP(1), facts(codes)).shapes[0]
    assert found.leaves == preview.leaves
    assert found.rows == tuple(round(s) for s in preview.typical_sizes)
    # One count of two labels, sensitivity 1, on 85 % of ε.
    tree = next(s for s in made.steps if s.stage.startswith("tree"))
    assert found.lam == pytest.approx(float(tree.budget.exact), rel=1e-6)
    for n, width in zip(found.rows, found.widths, strict=True):
        assert width == pytest.approx(interval(0.5, found.lam, n, kind="interp", noise="discrete").width)
    assert list(found.rows) == sorted(found.rows)
    assert found.shrunk is not None
    assert found.shrunk < found.typical[1] * 1.2


def test_widths_of_effects_are_those_of_their_cells():
    codes = rows("label")
    made = plan(codes.schema, method("loglinear", "label"), PureDP(1), public=facts(codes))
    by_name = {w.what: w for w in made.widths}
    assert by_name["grade × sex × race"].leaves == 4
    n, width = by_name["grade × sex × race"].typical
    assert n == pytest.approx(1000, rel=0.1)
    assert 0 < width < 0.3
    assert by_name["sex × race"].typical[0] == 4000


@pytest.mark.slow
def test_more_labels_projected_on_a_size_leave_less_noise():
    assert rate(1.0, "discrete") < rate(0.5, "discrete")
    assert rate(2.0, "gaussian") == 0.5
    codes = rows("label")
    (two,) = plan(codes.schema, Forest(targets=("sex",), n_b=500), PureDP(1), public=facts(codes)).widths
    (three,) = plan(codes.schema, Forest(targets=("race",), n_b=500), PureDP(1), public=facts(codes)).widths
    # Δ is 1 for one of two counts and 2 for three of them, of whose variance projection leaves two thirds.
    assert two.lam / three.lam == pytest.approx(2 * (2 / 3) ** 0.5, rel=0.05)


# --- how much ε -----------------------------------------------------------------------------------


@pytest.mark.parametrize("currency", ["epsilon", pytest.param("rho", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "relation", "settings"),
    [
        ("flat", "replace", {}),
        ("marginals", "add-remove", {"cliques": 2}),
        ("mst", "replace", {}),
        ("aim", "add-remove", {}),
        ("privbayes", "replace", {}),
        ("steps", "replace", {}),
        ("universal", "replace", {}),
        ("loglinear", "label", {}),
        ("forest", "label", {"n_b": 1500, "n_leaf": 700, "weights": None}),
    ],
)
@pytest.mark.slow
def test_the_budget_for_a_width_reaches_it_and_is_the_least(name, relation, settings, currency):
    codes = rows(relation, n=20_000)
    chosen, public = method(name, relation, **settings), facts(codes)
    width = 0.09
    found = budget_for_width(codes.schema, chosen, width, currency=currency, public=public)
    assert found.currency == currency

    def widest(budget):
        made = plan(codes.schema, chosen, budget, public=public)
        if relation == "label":
            return max(w.typical[1] for w in made.widths if w.labels > 1)
        return max(2 * 1.6449 * e.share_sd for e in made.errors if e.share_sd is not None)

    assert widest(found) <= width * 1.0001
    less = type(found).of_units(int(found.units * 0.95))
    assert widest(less) > width


def test_sets_that_are_sanitised_apart_cost_more():
    codes = rows("replace")
    one, four = (
        budget_for_width(codes.schema, method("flat", "replace"), 0.05, public=facts(codes), sets=sets, each=each)
        for sets, each in ((1, None), (4, "split"))
    )
    assert float(four.exact) == pytest.approx(4 * float(one.exact), rel=0.02)


def test_what_cannot_be_reached_is_refused_with_what_to_do():
    codes = rows("label")
    with pytest.raises(UsageError, match="n_leaf"):
        budget_for_width(codes.schema, Forest(targets=("sex",)), 0.05, public=facts(codes))
    with pytest.raises(UsageError, match="no ε is enough"):
        budget_for_width(codes.schema, Forest(targets=("sex",), n_b=50), 0.05, public=facts(codes))
    with pytest.raises(UsageError, match="FILE"):
        budget_for_width(codes.schema, Forest(targets=("sex",), n_b=50), 0.05, public=PublicFacts(4000))
    with pytest.raises(UsageError, match="--rows"):
        budget_for_width(schema("add-remove"), method("mst", "add-remove"), 0.05)
    with pytest.raises(UsageError, match="between 0 and 1"):
        budget_for_width(schema("replace"), method("mst", "replace"), 5, public=PublicFacts(100))


def test_solving_ends_for_any_falling_strain():
    assert float(solve(lambda b: 0.3 / float(b.exact), "epsilon").exact) == pytest.approx(0.3, rel=0.01)
    assert float(solve(lambda b: 1e-7 / float(b.exact), "epsilon").exact) < 2e-7
    # Shares that move with the budget make noise fall more slowly, or faster, than in proportion.
    for power in (0.4, 0.8, 1.3):
        found = solve(lambda b, power=power: (7 / float(b.exact)) ** power, "epsilon")
        assert float(found.exact) == pytest.approx(7, rel=0.02)
    with pytest.raises(UsageError, match="no budget"):
        solve(lambda b: 2.0, "epsilon")


def test_widths_without_public_rows_use_the_average_cell():
    s = schema("label")
    labeller, public = method("loglinear", "label"), PublicFacts(4000)
    outlook = outlook_of(labeller, s, PureDP(1), labeller.plan(s, PureDP(1), public), public)
    found = label_widths(outlook, "discrete")
    assert {w.what: w.typical[0] for w in found}["grade × sex × race"] == 1000


def test_what_a_delta_would_buy_is_said_where_it_buys_something():
    aim, flat = plan(schema("add-remove"), AIM(rounds=45), PureDP(1)), plan(schema("add-remove"), Flat(), PureDP(1))
    assert aim.delta.noise < 0.9
    assert "pure ε costs" in aim.delta.sentence
    assert aim.to_dict()["delta"]["noise"] == aim.delta.noise
    # One table of everything: Laplace noise is the smaller one at the same ε.
    assert flat.delta.noise > 2
    assert "buy nothing" in flat.delta.sentence
    assert plan(schema("add-remove"), AIM(), ZCDP.from_approx(1, 1e-9)).delta is None


def test_a_plan_prints_as_a_few_lines():
    codes = rows("replace")
    text = str(plan(codes.schema, AIM(), ZCDP("0.1"), public=facts(codes)))
    assert text.splitlines()[0].startswith("aim on ")
    assert "MB of memory and" in text
    assert len(text.splitlines()) < 20
