"""Expected errors against the errors of runs."""

from itertools import combinations

import numpy as np
import pytest
from planning_tables import authentic_shares, facts, method, released_shares, rows, schema

from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.outlook import outlook_of
from dipsmith.planning.expected_error import expected_errors, mean_to_sd
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Unit

CASES = [(name, relation) for name, made in METHODS.items() for relation in made.relations]


def planned(name, relation, budget, codes=None, **settings):
    codes = rows(relation) if codes is None else codes
    chosen = method(name, relation, **settings)
    return chosen, errors_of(codes.schema, chosen, budget, facts(codes))


def errors_of(schema, chosen, budget, public):
    steps = chosen.plan(schema, budget, public)
    outlook = outlook_of(chosen, schema, budget, steps, public)
    return expected_errors(schema, outlook, public, pure=budget.currency == "epsilon")


@pytest.mark.parametrize(("name", "relation"), CASES)
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.05")], ids=["pure", "zcdp"])
def test_every_one_and_two_way_marginal_is_told(name, relation, budget):
    _, errors = planned(name, relation, budget)
    names = schema(relation).names
    assert [e.attributes for e in errors] == [(n,) for n in names] + list(combinations(names, 2))
    for e in errors:
        assert e.how in ("public", "measured", "at most", "if chosen", "unknown")
        assert (e.tvd is None) == (e.how == "unknown")
        if e.tvd is not None:
            assert 0 <= e.tvd <= 1
            assert e.tvd <= e.cells * e.share_sd / 2 + 1e-12
        public = relation == "label" and not {"sex", "race"} & set(e.attributes)
        assert public == (e.how == "public")


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PureDP(2), ZCDP("0.2")], ids=["pure", "zcdp"])
@pytest.mark.parametrize(
    ("name", "settings"), [("flat", {}), ("marginals", {"cliques": 1}), ("marginals", {"cliques": 2})]
)
def test_measured_tables_err_as_foreseen(name, settings, relation, budget):
    """Noise is small against every cell here, so that nothing is clipped and the figure is the error."""
    codes = rows(relation, n=200_000)
    chosen, errors = planned(name, relation, budget, codes, **settings)
    known = [e for e in errors if e.how == "measured"]
    assert known
    found = {e.attributes: [] for e in known}
    for seed in range(12):
        given = len(codes) if relation == "add-remove" else None
        model = chosen.fit(Curator.rehearse(codes, budget, seed=seed, given_rows=given))
        for e in known:
            table = model.noisy if name == "flat" else model.about(*e.attributes)
            axes = tuple(i for i, n in enumerate(table.marginal.attributes) if n not in e.attributes)
            counts = table.estimates.reshape(table.marginal.shape).sum(axis=axes).ravel() / len(codes)
            found[e.attributes].append(np.abs(counts - authentic_shares(codes, e.attributes)).sum() / 2)
    # Twelve runs: the mean of a table of a few cells is known to within a third, of all tables to within a tenth.
    # A model reads a marginal off its best table; the plan joins all of them and may be lower by up to √(tables).
    ratios = [np.mean(found[e.attributes]) / e.tvd for e in known]
    two_way = [r for r, e in zip(ratios, known, strict=True) if len(e.attributes) == 2]
    checked = two_way if settings.get("cliques") == 2 else ratios
    assert np.mean(checked) == pytest.approx(1, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), CASES)
def test_runs_stay_near_what_was_foreseen(name, relation):
    """Over all marginals that are not left open, runs err by no more than a model's bias beyond the plan."""
    codes = rows(relation)
    chosen, errors = planned(name, relation, PureDP(1), codes)
    known = [e for e in errors if e.tvd and e.how in ("measured", "at most")]
    total = np.zeros(len(known))
    for seed in range(3):
        given = len(codes) if relation == "add-remove" else None
        model = chosen.fit(Curator.rehearse(codes, PureDP(1), seed=seed, given_rows=given))
        released = released_shares(model, codes, [e.attributes for e in known], seed)
        for i, (e, shares) in enumerate(zip(known, released, strict=True)):
            total[i] += np.abs(shares - authentic_shares(codes, e.attributes)).sum() / 2 / 3
    foreseen = sum(e.tvd for e in known)
    assert total.sum() < 1.5 * foreseen
    # An empty promise would pass the line above: the bound is not far from the truth either.
    assert total.sum() > 0.15 * foreseen


@pytest.mark.parametrize("name", ["loglinear", "forest"])
def test_two_labels_need_half_the_noise(name):
    codes = rows("label")
    for targets, counts in ((("sex",), 1), (("race",), 2)):
        _, errors = planned(name, "label", PureDP(1), codes, targets=targets)
        alone = next(e for e in errors if e.attributes == targets)
        assert alone.count_sd is not None
        assert alone.count_sd > counts  # noise of at least Δ


def test_units_with_several_rows_and_budgets_scale_the_error():
    base = errors_of(schema("replace"), method("flat", "replace"), PureDP(1), PublicFacts(4000))
    several = schema("replace", Unit("person", 3))
    scaled = errors_of(several, method("flat", "replace"), PureDP(3), PublicFacts(4000))
    for one, other in zip(base, scaled, strict=True):
        assert other.count_sd == pytest.approx(one.count_sd, rel=1e-9)


def test_without_rows_counts_are_told_and_shares_are_not():
    s = schema("add-remove")
    for e in errors_of(s, method("mst", "add-remove"), PureDP(1), PublicFacts()):
        assert e.count_sd is not None
        assert e.share_sd is None


def test_chosen_pairs_are_marked():
    _, errors = planned("mst", "replace", PureDP(1))
    assert {e.how for e in errors if len(e.attributes) == 2} == {"if chosen"}
    assert {e.how for e in errors if len(e.attributes) == 1} == {"at most"}


def test_mean_of_sums_of_laplace_variables():
    rng = np.random.default_rng(1)
    for m in (1, 2, 5, 30):
        sums = rng.laplace(size=(200_000, m)).sum(axis=1)
        # 200,000 draws: the ratio is known to 0.3 %.
        assert np.abs(sums).mean() / sums.std() == pytest.approx(mean_to_sd(m), rel=0.015)


def test_a_plan_names_the_columns_of_its_tables():
    s = schema("replace")
    steps = method("flat", "replace").plan(s, PureDP(1), PublicFacts(100))
    assert [x.attributes for x in steps] == [s.names]
    steps = method("mst", "replace").plan(s, PureDP(1), PublicFacts(100))
    assert [x.attributes for x in steps] == [*((n,) for n in s.names), (), ()]
