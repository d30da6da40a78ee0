"""`dipsmith plan`: complete as JSON, one screen as text, and never a private value."""

import json

import numpy as np
import pytest

import dipsmith as ds

PEOPLE = """
name: people
unit: row
neighbours: {neighbours}
fields:
  - {{name: place, type: string, enum: [v, w, x, y, z], other: v, role: public}}
  - {{name: grade, type: integer, enum: [1, 2, 3, 4], other: 1, role: public}}
  - {{name: sex, type: string, enum: [F, M], other: M}}
"""


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{'vwxyz'[rng.integers(5)]},{rng.integers(1, 5)},{'FM'[rng.integers(2)]}" for _ in range(3000)]
    (tmp_path / "people.csv").write_text("place,grade,sex\n" + "\n".join(lines) + "\n")
    for relation in ("label", "replace", "add-remove"):
        (tmp_path / f"{relation}.yaml").write_text(PEOPLE.format(neighbours=relation))
    return tmp_path


def planned(dipsmith, *arguments):
    ran = dipsmith("plan", *arguments, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_json_is_complete(dipsmith, people):
    said = planned(dipsmith, "--schema", "replace.yaml", "--method", "mst", "--epsilon", 1, "--rows", 3000)
    assert said["budget"] == {"epsilon": 1.0}
    assert sum(s["cost"] for s in said["steps"]) == pytest.approx(1)
    assert sum(s["share"] for s in said["stages"]) == pytest.approx(1)
    assert len(said["errors"]) == 3 + 3
    assert {"marginal", "cells", "count_sd", "share_sd", "tvd", "how"} == set(said["errors"][0])
    assert said["seconds"] > 0
    assert said["memory_bytes"] > 10**7


@pytest.mark.parametrize(("relation", "method"), [("replace", "mst"), ("label", "loglinear")])
def test_python_says_the_same_of_planned_analyses(dipsmith, people, relation, method):
    formula = 'I(sex == "F") ~ grade; width 0.1'
    arguments = ["--method", method, "--epsilon", 1, "--analysis", formula]
    data = ["people.csv"] if relation == "label" else ["--rows", 3000]
    said = planned(dipsmith, *data, "--schema", f"{relation}.yaml", *arguments)
    given = {"data": "people.csv"} if relation == "label" else {"rows": 3000}
    found = ds.plan(f"{relation}.yaml", method, ds.PureDP(1), analyses=[formula], **given)
    assert json.loads(json.dumps(found.to_dict())) == said
    assert said["analyses"]["coefficients"]
    assert f"grade ± {1.96 * found.analyses.expectations[-1].width / 3.92:.3g}" in str(found)


@pytest.mark.parametrize("method", ["flat", "marginals", "steps", "universal", "forest", "privbayes", "mst", "aim"])
def test_text_is_one_screen(dipsmith, people, method):
    ran = dipsmith("plan", "--schema", "replace.yaml", "--method", method, "--epsilon", 1, "--rows", 3000)
    assert ran.code == 0
    assert len(ran.out.splitlines()) <= 45
    assert "Nothing private was read" in ran.out
    assert f"--method {method} --epsilon 1 " in ran.out.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["loglinear", "forest"])
def test_labels_are_planned_from_public_columns(dipsmith, people, method):
    said = planned(dipsmith, "people.csv", "--schema", "label.yaml", "--method", method, "--epsilon", 1)
    assert said["rows"] == 3000
    assert said["labels"]["widths"]
    text = dipsmith("plan", "people.csv", "--schema", "label.yaml", "--method", method, "--epsilon", 1).out
    assert "interval of a label's share" in text
    assert len(text.splitlines()) <= 45


@pytest.mark.slow
@pytest.mark.parametrize("method", ["loglinear", "forest"])
def test_private_columns_do_not_matter(dipsmith, people, method):
    arguments = ("people.csv", "--schema", "label.yaml", "--method", method, "--epsilon", 1)
    before = planned(dipsmith, *arguments)
    text = (people / "people.csv").read_text()
    (people / "people.csv").write_text(text.replace(",F\n", ",M\n"))
    assert planned(dipsmith, *arguments) == before


@pytest.mark.slow
def test_a_target_width_is_solved_for(dipsmith, people):
    said = planned(dipsmith, "--schema", "replace.yaml", "--method", "flat", "--target-width", 0.05, "--rows", 3000)
    assert said["target_width"] == 0.05
    widest = max(2 * 1.6449 * e["share_sd"] for e in said["errors"])
    assert 0.045 < widest <= 0.05001
    text = dipsmith("plan", "--schema", "replace.yaml", "--method", "flat", "--target-width", 0.05, "--rows", 3000).out
    assert text.startswith(
        f"ε = {said['budget']['epsilon']:g} makes the 90% interval of every share at most 0.05 wide."
    )
    labels = planned(
        dipsmith,
        "people.csv",
        "--schema",
        "label.yaml",
        "--method",
        "loglinear",
        "--target-width",
        0.1,
        "--p0",
        0.3,
    )
    widths = [w["widths"][3] for w in labels["labels"]["widths"]]
    assert max(widths) <= 0.1001
    assert max(widths) > 0.09


def test_a_target_width_under_delta_is_told_as_epsilon_and_delta(dipsmith, people):
    ran = dipsmith(
        "plan", "--schema", "replace.yaml", "--method", "flat", "--target-width", 0.05, "--rows", 3000, "--delta", "1e-9"
    )  # fmt: skip
    assert ran.code == 0
    assert "δ = 1e-09" in ran.out
    assert "--delta 1e-09" in ran.out.splitlines()[-1]


def test_settings_reach_the_next_command(dipsmith, people):
    ran = dipsmith(
        "plan", "--schema", "add-remove.yaml", "--method", "marginals", "--set", "cliques=2", "--rho", "0.1",
        "--known-rows", 3000, "--sets", 3, "--each", "draw",
    )  # fmt: skip
    assert ran.out.splitlines()[-1].endswith(
        "--method marginals --rho 0.1 --known-rows 3000 --sets 3 --each draw --set cliques=2 --ledger budget.db --out release/"
    )


def test_suggestion_comes_with_its_plan(dipsmith, people):
    said = planned(dipsmith, "--schema", "replace.yaml", "--suggest", "--epsilon", 1, "--rows", 3000)
    assert said["suggestion"]["method"] == said["method"] == "flat"


def test_without_rows_it_says_what_is_missing(dipsmith, people):
    ran = dipsmith("plan", "--schema", "add-remove.yaml", "--method", "mst", "--epsilon", 1)
    assert ran.code == 0
    assert "give --rows" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--schema", "replace.yaml", "--method", "flat"),
        ("--schema", "replace.yaml", "--method", "flat", "--epsilon", 1, "--target-width", 0.1, "--rows", 10),
        ("--schema", "replace.yaml", "--method", "flat", "--target-width", 2, "--rows", 10),
        ("--schema", "add-remove.yaml", "--method", "flat", "--target-width", 0.1),
        ("--schema", "replace.yaml", "--method", "nothing", "--epsilon", 1),
        ("people.csv", "--schema", "replace.yaml", "--method", "flat", "--epsilon", 1),
        ("people.csv", "--schema", "label.yaml", "--method", "forest", "--target-width", 0.1),
        ("--schema", "label.yaml", "--method", "mst", "--epsilon", 1),
        *(
            ("--schema", "replace.yaml", "--method", "flat", "--epsilon", 1, option, value)
            for option, value in (("--p0", "nan"), ("--p0", "-inf"), ("--level", "nan"), ("--level", 1))
        ),
        ("people.csv", "--schema", "label.yaml", "--method", "forest", "--target-width", 1e-320),
    ],
)
def test_contradictions_are_one_line_and_exit_code_2(dipsmith, people, arguments):
    ran = dipsmith("plan", *arguments)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1


@pytest.mark.slow
def test_a_forest_tells_what_trees_cost_and_how_deep_they_go(dipsmith, people):
    arguments = ("people.csv", "--schema", "label.yaml", "--method", "forest", "--epsilon", 1)
    asked = ("--set", "trees=3", "--set", "n_b=200", "--set", "strata=grade")
    said = planned(dipsmith, *arguments, *asked)["forest"]
    trees = [c for c in said["costs"] if c["question"] == "leaves of a tree"]
    assert sum(c["times"] for c in trees) == 3
    assert {c["strata"] for c in trees} == {1}
    assert sum(c["total"] for c in said["costs"]) == pytest.approx(1)
    (shape,) = said["shapes"]
    # Four grades of about 750 rows, three trees each: all ask the five places, then have fewer than 200 rows.
    assert shape["leaves_by_depth"] == [0, 4 * 3 * 5]
    assert sum(shape["rows_by_depth"]) == 3 * 3000
    ran = dipsmith("plan", *arguments, *asked)
    assert "leaves of a tree" in ran.out
    assert "Attributes asked on the way to a leaf" in ran.out


def test_a_log_linear_model_tells_every_table_and_the_precision_of_its_effects(dipsmith, people):
    arguments = ("people.csv", "--schema", "label.yaml", "--method", "loglinear")
    errors = []
    for epsilon in ("0.1", "10"):
        said = planned(dipsmith, *arguments, "--epsilon", epsilon)
        effects = [s for s in said["steps"] if s["effect_error"] is not None]
        assert [s["what"].split(":")[0] for s in effects] == ["place × sex", "grade × sex"]
        assert [s["cells"] for s in effects] == [10, 8]
        errors.append(effects[0]["effect_error"])
    # Without noise 600 rows to a cell: the log-odds of an even share have a standard error of 2/√600.
    assert errors[1] == pytest.approx(2 / 600**0.5, rel=0.05)
    assert errors[0] > 2 * errors[1]
    assert "least precise first" in dipsmith("plan", *arguments, "--epsilon", 1).out
