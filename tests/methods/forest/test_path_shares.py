"""What a forest attenuates: the law of path shares holds, the plan expects what is grown, card and report say it."""

import numpy as np
import pytest

import dipsmith as ds
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.model_tree import PathShares
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.synthesis.trees import path_notes, path_shares_of, tree_blocks
from dipsmith.testing import example_rows, example_schema

NAMES = ("x", "a", "b", "c", "d", "e")


def table(n=30_000, seed=1):
    """A label that depends on x alone, by .4, and five columns that say nothing."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, 2, n) for name in NAMES}
    columns["y"] = (rng.random(n) < 0.3 + 0.4 * columns["x"]).astype(int)
    listed = [Attribute(n, "string", Categories.of("01", other="0"), "public") for n in NAMES]
    label = Attribute("y", "string", Categories.of("01", other="0"), "private")
    schema = Schema("t", (*listed, label), Unit(), "label")
    return Codes.of(schema, columns, n)


@pytest.mark.parametrize("seed", range(3))
def test_a_difference_comes_out_as_the_share_of_paths_that_ask_its_column(seed):
    """Six trees of one question each: x is asked by some of them.

    At ε = 3000 noise is 0 in all but one count in e⁵⁰⁰; shares of 15,000 rows each have s.e. ≤ .004, so that
    differences are within .03 but for a chance of 1e-7.
    """
    rows = table(seed=seed)
    forest = ds.Forest(targets=["y"], trees=6, max_depth=1, weights=None, shrink=False)
    model = forest.fit(Curator.rehearse(rows, ds.PureDP(3000), seed=seed))
    (paths,) = model.path_shares()
    share = paths.shares["x"]
    assert share == pytest.approx(round(6 * share) / 6)
    assert sum(paths.shares.values()) == pytest.approx(1)
    p = model.probabilities(rows.project(NAMES))[:, 1]
    authentic, synthetic = (v[rows["x"] == 1].mean() - v[rows["x"] == 0].mean() for v in (rows["y"], p))
    assert synthetic == pytest.approx(share * authentic, abs=0.03)


def test_shares_are_those_of_the_rows_that_walk_down_a_tree():
    rows = example_rows(example_schema("label"), 2000)
    forest = ds.Forest(targets=["sex"], trees=3, n_b=60, weights={"age": 3})
    model = forest.fit(Curator.rehearse(rows, ds.PureDP(2), seed=2))
    (paths,) = model.path_shares()
    for name in ("age", "grade", "place"):
        asked = []
        for part in model.blocks[0].ensembles[0].trees:
            tree = part.tree
            asked.append((tree.paths()[tree.index(rows), tree.columns.index(name)] >= 0).mean())
        assert paths.shares[name] == pytest.approx(np.mean(asked))


def test_leaves_without_rows_count_for_nothing():
    schema = example_schema("label")
    tree = TreeShape.root(schema, ["grade", "age"]).split(np.array([0])).split(np.array([1, -1, -1, -1]))
    sizes = np.zeros(tree.size)
    sizes[-1] = 30.0  # the last leaf is below grade and age
    assert tree.asked_shares(sizes) == {"grade": 1.0, "age": 1.0}
    sizes[0] = 90.0
    assert tree.asked_shares(sizes) == {"grade": 1.0, "age": 0.25}
    assert tree.asked_shares(0 * sizes) == {"grade": 0.0, "age": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, {"x": 10.0}, {"x": 0.0, "a": 2.0}])
def test_the_plan_expects_what_is_grown(weights):
    """40 trees by fixed coins; below the root every branch draws for itself, so that .1 is five standard errors."""
    rows = table(20_000)
    public = rows.project(NAMES)
    forest = ds.Forest(targets=["y"], trees=40, n_b=2600, weights=weights)
    facts = PublicFacts(len(rows), (public, np.ones(len(rows), dtype=np.int64)))
    steps = forest.plan(rows.schema, ds.PureDP(50), facts)
    (expected,) = forest.outlook(rows.schema, ds.PureDP(50), steps, facts).path_shares
    model = forest.fit(Curator.rehearse(rows, ds.PureDP(50), seed=5))
    (grown,) = model.path_shares()
    assert expected.expected == ""
    for name in NAMES:
        assert expected.shares[name] == pytest.approx(grown.shares[name], abs=0.1)
    if weights and weights["x"] == 0.0:
        assert expected.shares["x"] == grown.shares["x"] == 0.0


def test_without_rows_the_plan_expects_the_usual_depth():
    schema = table(10).schema
    forest = ds.Forest(targets=["y"], must_include=["c"], max_depth=2)
    steps = forest.plan(schema, ds.PureDP(1), PublicFacts())
    (paths,) = forest.outlook(schema, ds.PureDP(1), steps, PublicFacts()).path_shares
    assert paths.shares["c"] == 1.0
    others = [paths.shares[n] for n in NAMES if n != "c"]
    assert others == pytest.approx([0.2] * 5, abs=0.02)  # 20,000 draws: s.e. .003
    assert paths.sentence.startswith("If all columns tell alike")


def test_a_stratum_has_trees_of_its_own():
    rows = example_rows(example_schema("label"), 900)
    model = ds.Forest(targets=["sex"], strata="place", n_b=40).fit(Curator.rehearse(rows, ds.PureDP(2), seed=1))
    (paths,) = model.path_shares()
    assert paths.shares["place"] == 1.0
    assert list(paths.shares) == ["age", "grade", "place"]


def test_the_sentence_names_the_worst_first():
    shares = {f"c{i}": i / 20 for i in range(12)} | {"all": 1.0}
    text = PathShares(("sex", "race"), shares, advice="Plan it.").sentence
    assert "about sex × race beyond the others" in text
    assert "is kept: c0 0 %, c1 5 %, c10 50 %" not in text
    assert "c0 0 %, c1 5 %, c2 10 %" in text
    assert "and 4 more columns; all is on every path" in text
    assert text.endswith("Plan it.")
    assert "no regression on sex is attenuated" in PathShares(("sex",), {"a": 1.0}).sentence


def test_card_and_report_say_it():
    import pyarrow as pa

    rows = table(3000)
    arrow = pa.table({n: pa.array(np.array(list("01"))[rows[n]]) for n in rows.names})
    forest = ds.Forest(targets=["y"], trees=2, n_b=1200, weights=None)
    release = ds.synthesize(arrow, rows.schema, forest, budget=ds.PureDP(2), testing=True, noise_seed=1)
    (paths,) = path_shares_of(release.models)
    assert paths.sentence in release.card.notes
    assert paths.sentence in tree_blocks(release)
    planned = path_notes(release.models, planned=True)
    assert planned[-1] == "Planned analyses are not attenuated: labels are adjusted to them."
    whole = ds.Marginals().fit(Curator.rehearse(example_rows(example_schema("replace")), ds.PureDP(1), seed=1))
    from dipsmith.synthesis.fitted import FittedModel

    assert path_notes((FittedModel("any", whole),), planned=False) == ()
