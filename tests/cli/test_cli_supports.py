"""`dipsmith supports`: the answer in words and as JSON, and one line where something is wrong."""

import json

import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Categories, Schema, Unit

SIZES = {"a": 2, "b": 3, "c": 2}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Noisy tables of a × b, and of c."""
    columns = [Attribute(n, "string", Categories.of([f"{n}{i}" for i in range(k)])) for n, k in SIZES.items()]
    draw = generator(5)
    table = pa.table({n: [f"{n}{v}" for v in draw.integers(0, k, 500)] for n, k in SIZES.items()})
    method = ds.Marginals(cliques=[["a", "b"]])
    made = ds.synthesize(
        table,
        Schema("t", tuple(columns), Unit(), "add-remove"),
        method,
        budget=ds.PureDP(2),
        testing=True,
        noise_seed=1,
    )
    return made.save(tmp_path_factory.mktemp("supports") / "release")


@pytest.mark.slow
def test_a_formula_and_columns_are_answered_in_words(dipsmith, release):
    ran = dipsmith("supports", release, "I(b == 'b1') ~ a")
    assert ran.code == 0
    assert ran.out.startswith(
        "I(b == 'b1') ~ a: measured\n  Noisy tables hold every group of columns that it needs: (a × b)"
    )
    ran = dipsmith("supports", release, "a", "c")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "a × c: not carried",
        "  No noisy table holds a and c together: the rows relate them by way of other columns, if at all.",
        "  Ask the steward for a table of a × c, or to plan an analysis that names them (--analysis).",
    ]


def test_a_script_reads_the_same(dipsmith, release):
    told = json.loads(dipsmith("supports", release, "I(b == 'b1') ~ a + c", "--json").out)
    assert told["level"] == "not carried"
    assert ["a", "c"] in [sorted(p["columns"]) for p in told["parts"]]
    pairs = json.loads(dipsmith("supports", release, "--json").out)
    assert [p["level"] for p in pairs] == ["not carried", "not carried", "measured"]
    assert pairs[2]["standard_error"] > 0


def test_all_pairs_are_listed_worst_first(dipsmith, release):
    lines = dipsmith("supports", release).out.splitlines()
    assert lines[0].startswith("Pairs of columns, the worst first")
    assert [line.split("  ")[0] for line in lines[2:5]] == ["a × c", "b × c", "a × b"]
    assert lines[-1] == "3 pairs with a private column"


def test_mistakes_are_one_line_with_a_code(dipsmith, release, tmp_path):
    for asked, code, words in (
        ((release, "a", "z"), 2, "there is no column 'z'; there are: a, b, c"),
        ((release, "a ~ z"), 2, "names 'z', which is no column"),
        ((release, "a ~"), 2, "lacks a part; expected: response ~ terms"),
        ((tmp_path / "nothing", "a"), 3, "is not a release"),
    ):
        ran = dipsmith("supports", *asked)
        assert ran.code == code
        assert words in ran.err
        assert len(ran.err.splitlines()) == 1
