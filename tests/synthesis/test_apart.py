"""What is taken for public is never the confidential table: neither beside it, nor as a file that the schema names."""

import json
from pathlib import Path
from shutil import copyfile

import pytest
from typer.testing import CliRunner

import dipsmith as ds
from dipsmith.cli.main import app
from dipsmith.errors import UsageError
from dipsmith.synthesis.noisy_count import count_where

ROWS = ["code,count,label\n", "clerk,3,9\n", "judge,2,8\n", "spy,1,7\n"]
LISTED = ["clerk", "judge", "spy"]
NAMED = {
    "counts": {"fields": [{"name": "code", "enum": LISTED, "collapse": {"rare": 3, "counts": "p.csv"}}]},
    "enum": {"fields": [{"name": "code", "enum": "p.csv"}]},
    "collapse": {"fields": [{"name": "code", "enum": LISTED, "collapse": {"file": "p.csv"}}]},
    "totals": {
        "fields": [{"name": "code", "enum": LISTED, "hierarchy": {"first": 1, "code": 5}, "totals": {"code": "p.csv"}}]
    },
    "map": {
        "fields": [{"name": "code", "enum": LISTED}, {"name": "label", "enum": ["7", "8", "9"]}],
        "rules": [{"determines": {"code": "label"}, "map": "p.csv"}],
    },
}


def schema_of(folder, how):
    said = NAMED[how] | {"name": "people", "unit": "row", "neighbours": "add-remove"}
    said["fields"] = [{"type": "string"} | f for f in said["fields"]]
    return ds.Schema.from_dict(said, base=folder)


PLAIN = ds.Schema.from_dict(
    {
        "name": "people",
        "unit": "row",
        "neighbours": "add-remove",
        "fields": [{"name": "code", "type": "string", "enum": LISTED}],
    }
)


@pytest.fixture
def ledger(tmp_path):
    (tmp_path / "p.csv").write_text("".join(ROWS))
    book = ds.Ledger(tmp_path / "b.db")
    book.grant("people", ds.PureDP(9))
    return book


def started_from(file, ledger, private, cost=None):
    prior = ds.public_table(file, PLAIN, cost=cost)
    return ds.synthesize(private, PLAIN, ds.AIM(prior=prior, rounds=1), budget=ds.PureDP(1), ledger=ledger)


@pytest.mark.parametrize("how", NAMED)
@pytest.mark.parametrize("private", ["copy.csv", "folder"])
def test_no_file_that_a_schema_names_is_confidential(how, private, ledger, tmp_path):
    """`rare: 3, counts: p.csv` would tell by the released labels whether a job has two rows or three, for free."""
    (tmp_path / "folder").mkdir()
    for copy in ("copy.csv", "folder/one.csv"):
        copyfile(tmp_path / "p.csv", tmp_path / copy)
    (tmp_path / "folder" / "two.csv").write_text("".join(ROWS[:2]))
    schema = schema_of(tmp_path, how)
    with pytest.raises(UsageError, match=r"p\.csv is taken for public, but is the confidential one itself") as refused:
        ds.synthesize(tmp_path / private, schema, "mst", budget=ds.PureDP(1), ledger=ledger)
    assert not any(value in str(refused.value) for value in LISTED)
    with pytest.raises(UsageError, match="is the confidential one itself"):
        count_where(tmp_path / private, schema, "code = clerk", budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("people").spent_units == 0


def test_no_look_is_taken_by_such_a_schema(ledger, tmp_path):
    schema, private = schema_of(tmp_path, "counts"), tmp_path / "p.csv"
    release = ds.synthesize(private, PLAIN, "mst", budget=ds.PureDP(1), testing=True, noise_seed=1)
    with pytest.raises(UsageError, match="is the confidential one itself"):
        ds.compare(private, release, ledger=ledger, schema=schema)
    assert ledger.looks("people") == 0


def test_named_files_are_no_part_of_a_schema(tmp_path, ledger):
    schema = schema_of(tmp_path, "enum")
    assert [name for name, _ in schema.named_files] == [str(tmp_path / "p.csv")]
    again = ds.Schema.from_dict(schema.to_dict())
    assert (again, hash(again), again.digest, repr(again)) == (schema, hash(schema), schema.digest, repr(schema))
    assert not again.named_files


def test_a_table_that_was_charged_for_is_public_only_at_a_cost(ledger, tmp_path):
    (tmp_path / "next.csv").write_text("".join(ROWS[:3]))
    ds.synthesize(tmp_path / "p.csv", PLAIN, "mst", budget=ds.PureDP(1), ledger=ledger)
    said = r"p\.csv is taken for public, but the ledger was charged for it as the confidential table 'people'"
    with pytest.raises(UsageError, match=said):
        started_from(tmp_path / "p.csv", ledger, tmp_path / "next.csv")
    with pytest.raises(UsageError, match=said):
        ds.synthesize(tmp_path / "next.csv", schema_of(tmp_path, "enum"), "mst", budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("people").spent_units == ds.PureDP(1).units
    started_from(tmp_path / "p.csv", ledger, tmp_path / "next.csv", cost=ds.PureDP("0.5"))


LABELLED = {
    "name": "people",
    "unit": "row",
    "neighbours": "label",
    "fields": [
        {"name": "code", "type": "string", "enum": LISTED, "other": "spy", "role": "public"},
        {"name": "label", "type": "string", "enum": ["7", "8", "9"], "other": "9", "role": "private"},
    ],
}


@pytest.mark.slow
def test_no_plan_and_no_draft_reads_the_confidential_rows_as_public(ledger, tmp_path, monkeypatch):
    """Neither is charged: a plan of trees that grew on private labels, or a draft of private levels, tells them for free."""
    monkeypatch.chdir(tmp_path)
    copyfile("p.csv", "copy.csv")
    schema = ds.Schema.from_dict(LABELLED)
    Path("s.yaml").write_text(json.dumps(LABELLED))
    table = ds.public_table("copy.csv", schema)
    with pytest.raises(UsageError, match="is the confidential one itself"):
        ds.plan(schema, ds.Forest(targets=["label"], public=table), ds.PureDP(1), data="p.csv")
    planned = ("plan", "p.csv", "--schema", "s.yaml", "--method", "forest", "--epsilon", "1", "--public")
    for words in ((*planned, "copy.csv"), ("schema", "init", "p.csv", "--public-file", "copy.csv")):
        done = CliRunner().invoke(app, list(words))
        assert isinstance(done.exception, UsageError)
        assert "is the confidential one itself" in str(done.exception)
        assert "spy" not in done.output
    Path("copy.csv").write_text("".join(ROWS[:3]))
    assert CliRunner().invoke(app, [*planned, "copy.csv"]).exit_code == 0


def test_rows_that_were_charged_for_are_not_labelled_in_their_order(ledger, tmp_path):
    """Of another confidential table too: its order is no more public than that of this one."""
    schema = ds.Schema.from_dict(LABELLED)
    ledger.grant("others", ds.PureDP(9))
    (tmp_path / "next.csv").write_text("".join(ROWS[:3]))
    others = ds.Schema.from_dict(LABELLED | {"name": "others"})
    ds.synthesize(tmp_path / "next.csv", others, "loglinear", budget=ds.PureDP(1), ledger=ledger)
    with pytest.raises(UsageError, match="charged for it as the confidential table 'others'"):
        ds.synthesize(
            tmp_path / "p.csv", schema, "loglinear", budget=ds.PureDP(1), ledger=ledger, onto=tmp_path / "next.csv"
        )
    assert ledger.show("people").spent_units == 0


@pytest.mark.parametrize(("private", "public"), [("fold", "fold/one.csv"), ("fold/one.csv", "fold"), ("f*/*", "fold")])
def test_a_file_of_the_confidential_folder_is_no_prior(private, public, ledger, tmp_path):
    (tmp_path / "fold").mkdir()
    (tmp_path / "fold" / "one.csv").write_text("".join(ROWS))
    (tmp_path / "fold" / "two.csv").write_text("".join(ROWS[:2]))
    with pytest.raises(UsageError, match="is the confidential one itself, or a file of it"):
        started_from(tmp_path / public, ledger, tmp_path / private)
    assert ledger.show("people").spent_units == 0
