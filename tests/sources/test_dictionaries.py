"""Drafts from what a steward already has: value labels, table schemas, code books, catalogues. No row is read."""

import json
import sqlite3
from contextlib import closing

import duckdb
import pandas as pd
import pyreadstat
import pytest
import yaml
from openpyxl import Workbook
from typer.testing import CliRunner

import dipsmith as ds
from dipsmith.cli.main import app
from dipsmith.errors import SchemaError, SourceError, UsageError
from dipsmith.planning.smears import bin_warnings
from dipsmith.schema.dictionary import ColumnFacts, draft_from_facts, propose_bins
from dipsmith.sources import source
from dipsmith.sources.dictionaries.catalogue import _in_list
from dipsmith.sources.dictionaries.dictionary import read_dictionary

FRAME = pd.DataFrame({"sex": [1.0, 2.0, 1.0], "age": [31.0, 47.0, 62.0], "town": ["Bonn", "Köln", "SECRETTOWN"]})
LABELS = {"sex": {1: "men", 2: "women", 9: "refused"}}


def loaded(text):
    """A draft, with unit and neighbours said, as a schema."""
    return ds.Schema.from_dict({**yaml.safe_load(text), "unit": "row", "neighbours": "replace"})


def by_name(facts):
    return {fact.name: fact for fact in facts}


def test_stata_and_spss_files_are_read_by_their_header_alone(tmp_path, monkeypatch):
    pyreadstat.write_dta(
        FRAME, str(tmp_path / "s.dta"), variable_value_labels=LABELS, column_labels=["Sex", "Age in years", "Town"]
    )
    pyreadstat.write_sav(
        FRAME, str(tmp_path / "s.sav"), variable_value_labels=LABELS, missing_ranges={"sex": [9]}, column_labels=["Sex", "Age", "Town"],
        variable_measure={"sex": "nominal"},
    )  # fmt: skip
    seen = []
    for reader in ("read_dta", "read_sav"):
        real = getattr(pyreadstat, reader)
        monkeypatch.setattr(
            pyreadstat,
            reader,
            lambda *a, real=real, **k: seen.append(k) or (lambda r: (None if len(r[0]) else r[0], r[1]))(real(*a, **k)),
        )
    stata = by_name(read_dictionary(tmp_path / "s.dta"))
    assert stata["sex"].values == (("1", "men"), ("2", "women"), ("9", "refused"))
    assert stata["age"].title == "Age in years"
    spss = by_name(read_dictionary(str(tmp_path / "s.sav")))
    assert spss["sex"].values == (("1", "men"), ("2", "women"))
    assert spss["sex"].missing
    assert [how["metadataonly"] for how in seen] == [True, True]
    text = draft_from_facts([*stata.values()], "people", said_by="s.dta")
    assert "SECRETTOWN" not in text
    schema = loaded(text)
    assert schema["sex"].labels == ("men", "women", "refused")
    assert schema.provenance == "from s.dta"


def test_frictionless_and_csvw(tmp_path):
    fields = [
        {"name": "age", "type": "integer", "title": "Age", "constraints": {"minimum": 0, "maximum": 100}},
        {"name": "pay", "type": "number", "constraints": {"minimum": 0, "maximum": 250000}},
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"], "required": False}},
        {"name": "born", "type": "date", "constraints": {"minimum": "1900-01-01", "maximum": "2010-12-31"}},
        {"name": "staff", "type": "boolean"},
        {"name": "grade", "type": "string", "categories": [{"value": "1", "label": "low"}, {"value": "2", "label": "high"}], "categoriesOrdered": True},
        {"name": "note", "type": "string"},
    ]  # fmt: skip
    (tmp_path / "p.json").write_text(
        json.dumps({"name": "p", "resources": [{"name": "t", "schema": {"fields": fields}}]})
    )
    schema = loaded(draft_from_facts(read_dictionary(tmp_path / "p.json"), "t", said_by="p.json"))
    assert schema.names == ("age", "pay", "sex", "born", "staff", "grade")
    assert schema["sex"].domain.missing
    assert schema["grade"].domain.ordered
    assert schema["pay"].domain.law == "log"
    columns = [
        {"name": "age", "titles": {"en": "Age"}, "datatype": {"base": "integer", "minimum": "0", "maximum": "120"}},
        {"name": "sex", "datatype": {"base": "string", "format": "^(F|M)$"}},
        {"name": "made", "virtual": True},
    ]
    (tmp_path / "c.json").write_text(
        json.dumps({"@context": "http://www.w3.org/ns/csvw", "url": "t.csv", "tableSchema": {"columns": columns}})
    )
    facts = by_name(read_dictionary(tmp_path / "c.json"))
    assert (facts["age"].type, facts["age"].maximum, facts["age"].title) == ("integer", "120", "Age")
    assert facts["sex"].values == (("F", ""), ("M", ""))
    assert set(facts) == {"age", "sex"}
    (tmp_path / "n.json").write_text("{}")
    with pytest.raises(SourceError, match="no list of fields"):
        read_dictionary(tmp_path / "n.json")


def test_how_cells_are_written_is_taken_from_frictionless_and_csvw(tmp_path):
    bounds = {"constraints": {"minimum": 0, "maximum": 500}}
    dates = {"constraints": {"minimum": "2000-01-01", "maximum": "2000-12-31"}}
    fields = [
        {"name": "pay", "type": "number", "decimalChar": ",", "groupChar": ".", "bareNumber": False, **bounds},
        {"name": "born", "type": "date", "format": "%d/%m/%Y", **dates},
        {"name": "plain", "type": "date", "format": "default", **dates},
        {"name": "iso", "type": "date", "format": "%Y-%m-%d", **dates},
    ]
    (tmp_path / "p.json").write_text(json.dumps({"fields": fields}))
    schema = loaded(draft_from_facts(read_dictionary(tmp_path / "p.json"), "t", said_by="p.json"))
    assert {a.name: a.domain.spelling and a.domain.spelling.keys for a in schema} == {
        "pay": {"decimalChar": ",", "groupChar": ".", "bareNumber": False},
        "born": {"format": "%d/%m/%Y"}, "plain": None, "iso": None,
    }  # fmt: skip
    columns = [
        {"name": "pay", "datatype": {"base": "decimal", "format": {"decimalChar": ",", "groupChar": "."}}},
        {"name": "born", "datatype": {"base": "date", "format": "dd.MM.yyyy"}},
    ]
    (tmp_path / "c.json").write_text(json.dumps({"tableSchema": {"columns": columns}}))
    facts = by_name(read_dictionary(tmp_path / "c.json"))
    assert facts["pay"].spelling.keys == {"decimalChar": ",", "groupChar": "."}
    assert facts["born"].spelling.keys == {"format": "%d.%m.%Y"}


def test_ddi_codebook(tmp_path):
    text = """<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
    <var name="sex" nature="nominal"><labl>Sex</labl><varFormat type="numeric"/>
      <catgry><catValu>1</catValu><labl>men</labl></catgry><catgry><catValu>2</catValu><labl>women</labl></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>refused</labl></catgry></var>
    <var name="age" intrvl="discrete"><valrng><range min="0" max="99"/></valrng><labl>Age</labl><varFormat type="numeric"/></var>
    </dataDscr></codeBook>"""
    (tmp_path / "d.xml").write_text(text)
    facts = by_name(read_dictionary(tmp_path / "d.xml"))
    assert facts["sex"].values == (("1", "men"), ("2", "women"))
    assert facts["sex"].missing
    assert (facts["age"].minimum, facts["age"].maximum, facts["age"].type) == ("0", "99", "integer")
    (tmp_path / "e.xml").write_text('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>')
    with pytest.raises(SourceError, match="DOCTYPE"):
        read_dictionary(tmp_path / "e.xml")
    (tmp_path / "f.xml").write_text("<x>")
    with pytest.raises(SourceError, match="line 1, column 4"):
        read_dictionary(tmp_path / "f.xml")


def test_data_dictionaries_in_csv_and_excel(tmp_path):
    rows = [
        ["Variable", "Label", "Type", "Values", "Min", "Max"],
        ["sex", "Sex of the person", "factor", "1 = men; 2 = women", "", ""],
        ["age", "Age", "integer", "", "0", "110"],
        ["free", "Remarks", "text", "", "", ""],
    ]
    (tmp_path / "d.csv").write_text("\n".join(",".join(row) for row in rows))
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "d.xlsx")
    assert read_dictionary(tmp_path / "d.csv") == read_dictionary(tmp_path / "d.xlsx")
    text = draft_from_facts(read_dictionary(tmp_path / "d.csv"), "t", said_by="d.csv", header=["age", "sex", "other"])
    assert loaded(text).names == ("age", "sex")
    assert "# other: nothing is said of it" in text
    (tmp_path / "long.csv").write_text("name,value,value label\nsex,1,men\n,2,women\n")
    (fact,) = read_dictionary(tmp_path / "long.csv")
    assert fact.values == (("1", "men"), ("2", "women"))
    (tmp_path / "long.csv").write_text("name,value,label\nsex,1,men\nsex,2,women\nage,,Age\n")
    sex, age = read_dictionary(tmp_path / "long.csv")
    assert (sex.title, sex.values, age.title) == ("", (("1", "men"), ("2", "women")), "Age")
    (tmp_path / "rows.csv").write_text("age,sex\n3,F\n")
    with pytest.raises(SourceError, match="names no column 'name'"):
        read_dictionary(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("17-90", ("integer", "17", "90", ())),
        ("0 to 99.5", ("number", "0", "99.5", ())),
        ("-5..5", ("integer", "-5", "5", ())),
        ("2001-01-01 – 2020-12-31", ("date", "2001-01-01", "2020-12-31", ())),
        ("<=50K | >50K", ("string", None, None, ("<=50K", ">50K"))),
        ("08:00; 20:00", ("string", None, None, ("08:00", "20:00"))),
        ("18-24, 25-34, 35+", ("string", None, None, ("18-24", "25-34", "35+"))),
        ("0-98; 99 = refused", (None, None, None, ())),
        (">= 0", ("integer", "0", None, ())),
        ("at most 99.5", ("number", None, "99.5", ())),
        ("1 - none; 2 - school", ("string", None, None, ("1", "2"))),
        ("1 none, 2 school", ("string", None, None, ("1", "2"))),
        ("1 week, 2 weeks", ("string", None, None, ("1 week", "2 weeks"))),
        ("1 - 4; 5 - 9", ("string", None, None, ("1 - 4", "5 - 9"))),
    ],
)
def test_a_cell_of_values_is_a_range_or_a_list_and_never_a_range_taken_for_a_value(tmp_path, cell, expected):
    (tmp_path / "d.csv").write_text(f'name,values\nx,"{cell}"\n')
    (fact,) = read_dictionary(tmp_path / "d.csv")
    assert (fact.type, fact.minimum, fact.maximum, tuple(v for v, _ in fact.values)) == expected


def test_factors_of_r_as_write_csv_lists_them(tmp_path):
    text = '"name","type","values"\n"sex","factor","F;M"\n"grade","ordered","low;high"\n"age","integer",""\n"seen","POSIXct",""\n'
    (tmp_path / "r.csv").write_text(text)
    facts = by_name(read_dictionary(tmp_path / "r.csv"))
    assert facts["grade"].ordered
    assert facts["sex"].values == (("F", ""), ("M", ""))
    assert (facts["age"].type, facts["seen"].type) == ("integer", "datetime")


def test_what_is_said_of_a_column_stays_where_its_bounds_or_values_are_still_to_be_given():
    facts = [ColumnFacts("pay", "number", "Pay", minimum="0", missing=True), ColumnFacts("job", "string", "Job")]
    text = draft_from_facts(facts, "t", said_by="d.csv")
    assert "# - {name: pay, type: number, title: Pay, minimum: 0, maximum: , missing: true, role: private}" in text
    assert "# - {name: job, type: string, title: Job, enum: , role: private}" in text


def test_words_that_stand_for_none_are_missing_and_not_the_last_value(tmp_path):
    field = {"name": "income", "type": "string", "constraints": {"enum": ["low", "high"]}}
    table = {"fields": [field, {**field, "name": "sure", "constraints": {"enum": ["a"], "required": True}}]}
    for blanks, missing in ((["", "?"], True), ([""], False), (None, False)):
        (tmp_path / "t.json").write_text(json.dumps({**table, **({} if blanks is None else {"missingValues": blanks})}))
        facts = by_name(read_dictionary(tmp_path / "t.json"))
        assert facts["income"].missing == missing
        assert not facts["sure"].missing
    columns = [{"name": "job", "datatype": "string", "null": "?"}, {"name": "age", "datatype": "integer"}]
    (tmp_path / "c.json").write_text(json.dumps({"tableSchema": {"columns": columns}}))
    assert [fact.missing for fact in read_dictionary(tmp_path / "c.json")] == [True, False]


def test_catalogue_of_sqlite_without_a_row(tmp_path, monkeypatch):
    path = tmp_path / "w.db"
    with closing(sqlite3.connect(path)) as link:
        link.executescript(
            "CREATE TABLE regions (code TEXT PRIMARY KEY); INSERT INTO regions VALUES ('N'), ('S');"
            'CREATE TABLE "the people" (id INTEGER PRIMARY KEY, age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 120), '
            "sex TEXT CHECK (sex IN ('F', 'M', 'it''s (not) said')), region TEXT REFERENCES regions(code), born DATE, "
            "pay DECIMAL(9,2) CHECK ((pay >= 0) AND (pay <= 9000)), part NUMERIC(3), code INTEGER CHECK (code IN (1, 2, -9)));"
            "INSERT INTO \"the people\" VALUES (1, 77, 'F', 'N', '1950-01-02', 8123.45, 3, 1);"
        )
    facts = by_name(read_dictionary(f"sqlite://{path}", '"the people"'))
    assert (facts["age"].type, facts["age"].minimum, facts["age"].maximum) == ("integer", "0", "120")
    assert [facts[n].missing for n in ("id", "age", "sex")] == [False, False, True]
    assert [v for v, _ in facts["sex"].values] == ["F", "M", "it's (not) said"]
    assert facts["region"].values == (("N", ""), ("S", ""))
    assert (facts["born"].type, facts["pay"].type, facts["pay"].maximum) == ("date", "number", "9000")
    assert facts["part"].type == "integer"
    assert [v for v, _ in facts["code"].values] == ["1", "2", "-9"]
    text = draft_from_facts([*facts.values()], "people", said_by="the catalogue")
    assert "8123" not in text
    assert "1950" not in text
    with pytest.raises(SourceError, match="no table"):
        read_dictionary(f"sqlite://{path}", "nobody")
    monkeypatch.chdir(tmp_path)
    assert ds.draft_schema("sqlite:///w.db", table='"the people"').count("\n- {name: age") == 1
    assert source("sqlite://w.db", table='"the people"').columns[:2] == ("id", "age")  # NOT NULL is no obstacle
    for read in (read_dictionary, lambda a, t: source(a, table=t)):
        with pytest.raises(SourceError, match="no such SQLite file"):
            read("sqlite://nobody.db", "people")
    assert not (tmp_path / "nobody.db").exists()


@pytest.mark.parametrize(
    ("check", "values"),
    [
        ("((code = ANY (ARRAY['-1'::integer, 0, 1])))", ["-1", "0", "1"]),  # as PostgreSQL writes negative numbers
        ("(code IN (1, 2) AND sex IN ('F', 'M'))", ["1", "2"]),
        ("((code)::text = ANY ((ARRAY['F'::character varying(3), 'M'::character varying])::text[]))", ["F", "M"]),
    ],
)
def test_the_list_of_a_check_is_that_of_its_column(check, values):
    assert [value for value, _ in _in_list([check], "code")] == values


def test_the_header_of_parquet_states_types(tmp_path):
    pd.DataFrame({"age": [3], "job": pd.Categorical(["SECRETJOB"]), "ok": [True]}).to_parquet(tmp_path / "p.parquet")
    done = CliRunner().invoke(app, ["schema", "init", str(tmp_path / "p.parquet")])
    assert "{name: age, type: integer, role" in done.stdout
    assert "{name: job, type: string, role" in done.stdout
    assert "SECRETJOB" not in done.stdout


def test_catalogue_of_duckdb_without_a_row(tmp_path):
    path = tmp_path / "w.duckdb"
    with duckdb.connect(str(path)) as link:
        link.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s ok')")
        link.execute("CREATE TABLE regions (code VARCHAR PRIMARY KEY)")
        link.execute("INSERT INTO regions VALUES ('N'), ('S')")
        link.execute(
            "CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 120), sex VARCHAR CHECK (sex IN ('F', 'M')), "
            "m mood, region VARCHAR REFERENCES regions(code), born DATE, pay DECIMAL(9,2) CHECK (pay >= 0 AND pay <= 9000))"
        )
        link.execute("INSERT INTO people VALUES (77, 'F', 'sad', 'N', '1950-01-02', 8123.45)")
    facts = by_name(read_dictionary(f"duckdb://{path}", "people"))
    assert (facts["age"].type, facts["age"].minimum, facts["age"].maximum, facts["age"].missing) == (
        "integer",
        "0",
        "120",
        False,
    )
    assert facts["sex"].values == (("F", ""), ("M", ""))
    assert facts["m"].values == (("sad", ""), ("it's ok", ""))
    assert facts["region"].values == (("N", ""), ("S", ""))
    assert (facts["born"].type, facts["pay"].type, facts["pay"].maximum) == ("date", "number", "9000")
    text = draft_from_facts([*facts.values()], "people", said_by="the catalogue")
    assert "8123" not in text
    assert "1950" not in text
    with pytest.raises(SourceError, match="no table"):
        read_dictionary(f"duckdb://{path}", "nobody")
    with pytest.raises(UsageError, match="which table"):
        read_dictionary(f"duckdb://{path}")


@pytest.mark.slow
def test_catalogue_of_a_postgresql_server_without_a_row(postgresql):
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as link:
        for line in (
            'CREATE SCHEMA "the registry"',
            "CREATE TYPE \"the registry\".mood AS ENUM ('sad', 'it''s ok')",
            'CREATE TABLE "the registry".regions (code varchar(2) PRIMARY KEY)',
            "INSERT INTO \"the registry\".regions VALUES ('S'), ('N')",
            'CREATE TABLE "the registry"."People" (id bigserial, "Age in years" smallint NOT NULL '
            "CHECK (\"Age in years\" BETWEEN 0 AND 120), sex char(1) CHECK (sex IN ('F', 'M')), "
            "job text CHECK (job = ANY (ARRAY['cook', 'O''Hara''s nurse'])), m \"the registry\".mood, "
            'region varchar(2) REFERENCES "the registry".regions(code), '
            "born date CHECK (born >= '1900-01-01' AND born <= '2024-12-31'), seen timestamptz, "
            "pay numeric(9,2) CHECK (pay >= -50 AND pay <= 9000.50), part numeric(3,0), ok boolean, "
            'shade double precision, CONSTRAINT sane CHECK (shade >= 0.25), "50%" text)',
            'INSERT INTO "the registry"."People" ("Age in years", sex, born, pay) VALUES (77, \'F\', \'1950-01-02\', 8123.45)',
        ):
            link.execute(line)
    facts = by_name(read_dictionary(postgresql, '"the registry"."People"'))
    age = facts["Age in years"]
    assert (age.type, age.minimum, age.maximum, age.missing) == ("integer", "0", "120", False)
    assert facts["sex"].values == (("F", ""), ("M", ""))
    assert facts["job"].values == (("cook", ""), ("O'Hara's nurse", ""))
    assert facts["m"].values == (("sad", ""), ("it's ok", ""))
    assert facts["region"].values == (("N", ""), ("S", ""))
    assert (facts["born"].type, facts["born"].minimum, facts["born"].maximum) == ("date", "1900-01-01", "2024-12-31")
    assert (facts["pay"].type, facts["pay"].minimum, facts["pay"].maximum) == ("number", "-50", "9000.50")
    assert [facts[n].type for n in ("seen", "part", "ok", "shade", "50%")] == [
        *("datetime", "integer", "boolean", "number", "string")
    ]
    assert (facts["shade"].minimum, facts["shade"].maximum) == ("0.25", None)
    text = draft_from_facts([*facts.values()], "people", said_by="the catalogue")
    assert "8123" not in text
    assert "1950" not in text
    with pytest.raises(SourceError, match="no table"):
        read_dictionary(postgresql, "nobody")
    with pytest.raises(SourceError, match="cannot be read"):
        read_dictionary("postgresql://nobody@127.0.0.1:1/nothing", "people")


def test_categories_of_a_frame():
    frame = pd.DataFrame(
        {"g": pd.Categorical(["b"], ["a", "b", "c"], ordered=True), "n": [1.5], "i": [3], "o": ["private"]}
    )
    facts = by_name(read_dictionary(frame))
    assert facts["g"].values == (("a", ""), ("b", ""), ("c", ""))
    assert facts["g"].ordered
    assert (facts["n"].type, facts["i"].type, facts["o"].type) == ("number", "integer", None)


def test_bins_are_proposed_with_a_reason():
    assert propose_bins("integer", 1, 12) == ({}, "12 whole numbers, one bin each")
    whole = propose_bins("integer", 0, 99_999)[0]["bins"]["edges"]
    assert (whole[:3], whole[-1]) == ([0, 1, 10], 100_000)
    assert "0 by itself" not in propose_bins("integer", 5, 99_999)[1]


def test_zeros_of_amounts_with_decimals_are_not_smeared():
    """The draft says that 0 is by itself, and it is."""
    facts = [ColumnFacts("pay", "number", minimum="0", maximum="250000")]
    text = draft_from_facts(facts, "t", said_by="codes.csv")
    assert "0 by itself, to the cent, for money" in text
    schema = ds.Schema.from_dict({**yaml.safe_load(text), "unit": "row", "neighbours": "replace"})
    assert bin_warnings(schema) == ()
    assert schema["pay"].labels[0] == "[0, 0.01)"


def test_a_column_that_is_described_twice_is_refused():
    with pytest.raises(SchemaError, match="described twice"):
        draft_from_facts([ColumnFacts("a"), ColumnFacts("a")], "t", said_by="x.csv")


def test_sloppy_headings_and_names_in_another_case(tmp_path):
    """Marks in a heading do not matter, nor do case and spaces of a name where only one column can be meant."""
    (tmp_path / "d.csv").write_text("Variable,Min.,Max.,Value(s)\nAGE ,0,99,\nSex,,,F; M\nX,,,a\n")
    text = ds.draft_schema(tmp_path / "d.csv", name="t", header=["age", "sex", "x", "X"])
    schema = loaded(text)
    assert schema.names == ("age", "sex", "X")
    assert schema["sex"].labels == ("F", "M")
    assert (schema["age"].domain.minimum, schema["age"].domain.maximum) == (0, 99)


def test_a_dictionary_of_another_table_is_no_draft(tmp_path):
    """It would look like one, with every column left open."""
    (tmp_path / "d.csv").write_text("name,type\nheight,number\n")
    with pytest.raises(SchemaError, match=r"d\.csv describes 1 column, and none of those of the table"):
        ds.draft_schema(tmp_path / "d.csv", name="t", header=["age"])
    (tmp_path / "e.csv").write_text("name,Beschreibung,Typ\nage,Alter,Zahl\n")
    with pytest.raises(SourceError, match=r"e\.csv: its first line names nothing .*; call it label, type"):
        ds.draft_schema(tmp_path / "e.csv", name="t", header=["age"])
