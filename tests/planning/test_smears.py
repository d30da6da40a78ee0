"""What bins will do to values is said before anything is spent; rows that a schema allows can be looked at."""

import pytest
from typer.testing import CliRunner

import dipsmith as ds
from dipsmith.cli.main import app
from dipsmith.planning.smears import bin_warnings
from dipsmith.synthesis.invented_rows import invent_rows


def money(**keys):
    fields = [
        {"name": "gain", "type": "integer", "minimum": 0, "maximum": 99_999, **keys},
        {"name": "ok", "type": "boolean"},
    ]
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"bins": {"count": 20}}, ["zeros will be spread over 0 to 5,000"]),
        ({"bins": {"edges": [0, 1, 10, 100, 1000, 100_000], "law": "log"}}, []),
        ({"bins": {"edges": [0, 1, 10, 100, 99_999]}}, ["its widest bin"]),
        (
            {"type": "number", "bins": {"edges": [0, 1, 99_999], "law": "log"}},
            ["(precision 0.01, edges 0, 0.01, …)"],
        ),
        ({"type": "number", "precision": 1, "bins": {"edges": [0, 1, 99_999], "law": "log"}}, []),
        (
            {"type": "number", "precision": 0.01, "bins": {"edges": [0, 1, 99_999], "law": "log"}},
            ["edges 0, 0.01, …"],
        ),
        ({"type": "number", "precision": 0.01, "bins": {"edges": [0, 0.01, 99_999], "law": "log"}}, []),
        ({"bins": {"edges": [0, 1, 5, 6, 9, 10, 40, 41, 90_000, 90_001]}, "maximum": 90_000}, []),
        ({"bins": {"edges": [0, 1, 10, 90_000, 90_001]}, "maximum": 90_000}, ["its widest bin"]),
    ],
)
def test_a_plan_says_what_bins_do(keys, said):
    found = bin_warnings(money(**keys))
    assert len(found) == len(said)
    assert all(words in text and "'gain'" in text for words, text in zip(said, found, strict=True))
    plan = ds.plan(money(**keys), "mst", ds.PureDP(1), rows=1000)
    assert set(found) <= set(plan.warnings)


def test_check_prints_invented_rows(tmp_path):
    schema = money(bins={"count": 20})
    assert invent_rows(schema).column_names == ["gain", "ok"]
    schema.write(tmp_path / "t.yaml")
    done = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "t.yaml")])
    assert done.exit_code == 0, done.output
    assert "5 invented rows" in done.output
    assert done.output.count("True") + done.output.count("False") == 5


def test_a_wide_table_is_shown_one_column_a_line(tmp_path):
    fields = [{"name": f"column_{i}", "type": "string", "enum": ["a" * 30, "b"], "other": "b"} for i in range(50)]
    ds.Schema.from_dict({"name": "wide", "unit": "row", "neighbours": "replace", "fields": fields}).write(
        tmp_path / "w.yaml"
    )
    done = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "w.yaml")])
    assert done.exit_code == 0, done.output
    assert "50 columns, about 10^15 cells" in done.output
    assert max(map(len, done.output.splitlines())) <= 120
    assert sum(line.startswith("column_49") for line in done.output.splitlines()) == 2
