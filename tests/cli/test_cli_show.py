"""`dipsmith show`: a tree in the terminal, as JSON, as a picture with its numbers; one line where something is wrong."""

import csv
import json
import re

import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Categories, Schema, Unit

SIZES = {"a": 2, "b": 12, "c": 2}


def made(method, folder, relation="add-remove"):
    roles = {"c": "private"} if relation == "label" else dict.fromkeys(SIZES, "private")
    columns = tuple(
        Attribute(n, "string", Categories.of([f"{n}{i}" for i in range(k)], other=f"{n}0"), roles.get(n, "public"))
        for n, k in SIZES.items()
    )
    draw = generator(5)
    table = pa.table({n: [f"{n}{v}" for v in draw.integers(0, k, 600)] for n, k in SIZES.items()})
    schema = Schema("t", columns, Unit(), relation)
    return ds.synthesize(table, schema, method, budget=ds.PureDP(2), testing=True, noise_seed=1).save(folder)


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    return {
        "steps": made(ds.Steps(layers=[["a"], ["b"]]), folder / "steps", "replace"),
        "forest": made(ds.Forest(targets=["c"], trees=2, n_b=20, weights=None), folder / "forest", "label"),
        "marginals": made(ds.Marginals(), folder / "marginals", "replace"),
    }


@pytest.mark.slow
def test_a_tree_in_the_terminal(dipsmith, releases):
    lines = dipsmith("show", releases["steps"]).out.splitlines()
    assert lines[0].startswith("Rows are divided by a, then by b. On each branch: noisy numbers of rows")
    assert lines[1].startswith("Noise on one count, layer by layer: ±")
    assert lines[2] == "all rows  600  ▸ a"
    assert lines[3].startswith("├── a0  ")
    assert lines[3].endswith("  ▸ b")
    assert any("9 more" in line for line in lines)
    assert "Shown are at most 4 layers" in lines[-2]
    assert lines[-1].startswith("As a picture: dipsmith show ")


def test_every_tree_of_a_forest_can_be_asked_for(dipsmith, releases):
    ran = dipsmith("show", releases["forest"], "--tree", 2)
    assert ran.out.startswith("c, tree 2 of 2: ")
    assert "public numbers of rows" in ran.out
    assert "Trees:\n1  c, tree 1 of 2" in ran.out


def test_a_script_reads_the_same(dipsmith, releases):
    told = json.loads(dipsmith("show", releases["steps"], "--json", "--branches", 20).out)
    assert (told["tree"], told["trees"], told["whole"], told["public"]) == (1, 1, True, False)
    root = told["root"]
    assert root["divided_by"] == "a"
    assert [len(b["branches"]) for b in root["branches"]] == [12, 12]
    assert sum(b["rows"] for b in root["branches"]) == pytest.approx(root["rows"])


@pytest.mark.slow
@pytest.mark.figures
@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_a_picture_with_its_numbers(dipsmith, releases, tmp_path, ending):
    out = tmp_path / f"tree.{ending}"
    ran = dipsmith("show", releases["steps"], "--out", out)
    assert (ran.code, ran.err) == (0, "")
    assert f"Written to {out}" in ran.out
    rows = list(csv.DictReader((tmp_path / "tree.csv").read_text("utf-8").splitlines()))
    assert rows[0]["divided by"] == "a"
    if ending == "png":
        assert out.read_bytes().startswith(b"\x89PNG")
    else:
        text = out.read_text("utf-8")
        assert "ε = 2" in " ".join(re.findall(r">([^<>]+)<", text))
        assert rows[0]["rows"].split(".")[0] in text
        assert "<script" not in text


def test_mistakes_are_one_line_with_a_code(dipsmith, releases, tmp_path):
    (tmp_path / "there.csv").write_text("")
    for asked, code, words in (
        ((releases["marginals"],), 2, "a model of marginals is not made of trees"),
        ((releases["forest"], "--tree", 3), 2, "--tree is 3, and there are 2"),
        ((releases["steps"], "--depth", 0), 2, "--depth is 0, expected at least 1"),
        ((releases["steps"], "--out", "tree.pdf"), 2, "expected a file that ends in .svg, .png, .html"),
        ((releases["steps"], "--out", tmp_path / "there.svg"), 3, "there.csv"),
        ((tmp_path / "nothing",), 3, "is not a release"),
    ):
        ran = dipsmith("show", *asked)
        assert ran.code == code, ran.err
        assert words in ran.err
        assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "there.svg").exists()
