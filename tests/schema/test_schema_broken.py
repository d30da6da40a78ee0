"""Schemas that cannot be used: one line each, which names the column and the remedy, never a traceback."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import InputError, SchemaError
from dipsmith.schema import Schema
from dipsmith.schema.markup import parse

GOOD: dict[str, Any] = {
    "name": "people",
    "unit": "row",
    "neighbours": "replace",
    "fields": [
        {
            "name": "age",
            "type": "integer",
            "minimum": 17,
            "maximum": 90,
            "bins": {"width": 5},
            "role": "public",
        },
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
        {"name": "year", "type": "integer", "enum": [1988, 1996], "other": 1996, "role": "private"},
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good schema with one thing set ('fields.1.enum') or, with ..., removed."""
    data = copy.deepcopy(GOOD)
    target: Any = data
    *parents, last = path.split(".")
    for key in parents:
        target = target[int(key)] if key.isdigit() else target[key]
    if value is ...:
        del target[int(last) if last.isdigit() else last]
    elif isinstance(target, list):
        target.append(value) if int(last) == len(target) else target.__setitem__(int(last), value)
    else:
        target[last] = value
    return data


def field(**entry: Any) -> dict[str, Any]:
    return changed("fields.3", {"name": "x"} | entry)


def rule(never: Any) -> dict[str, Any]:
    return changed("rules", [{"never": never}])


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    # what is wrong, what the message must name, and the remedy it must offer
    (changed("unit", ...), "'unit' is missing", "unit: row"),
    (changed("unit", None), "'unit' is missing", "unit: row"),
    (changed("unit", "person"), "unit is 'person'", "max_rows"),
    (changed("unit", {"column": "id"}), "unit: 'max_rows' is missing", "noise grows"),
    (changed("unit", {"column": "id", "max_rows": 0}), "unit.max_rows", "at least 1"),
    (changed("unit", {"column": "id", "max_rows": "many"}), "unit: max_rows", "integer"),
    (changed("unit", {"column": "id", "max_rows": 1, "each": "year"}), "unknown key 'each'", "known keys"),
    (changed("unit", {"column": " ", "max_rows": 1}), "unit.column is empty", "unit: row"),
    (changed("unit", {"column": "sex", "max_rows": 1}), "column 'sex'", "remove it from fields"),
    (changed("unit", {"column": "id", "max_rows": 1, "per": "month"}), "unit.per 'month'", "add it"),
    (
        changed("unit", {"column": "id", "max_rows": 1, "per": "year"}) | {"neighbours": "label"},
        "column 'year'",
        "role: public",
    ),
    (changed("neighbours", ...), "'neighbours' is missing", "add-remove"),
    (changed("neighbours", "swap"), "neighbours is 'swap'", "add-remove"),
    (changed("neighbours", ...) | {"neighbors": "replace"}, "unknown key 'neighbors'", "neighbours"),
    (changed("name", ...), "'name' is missing", "short name"),
    (changed("name", "  "), "name is empty", "short name"),
    (changed("fields", ...), "'fields' is missing", "list of columns"),
    (changed("fields", []), "fields is empty", "at least one column"),
    (changed("fields", "age"), "fields must be", "list"),
    (changed("fields.0", "age"), "column number 1: the entry must be a mapping", "write '- {name: age"),
    (changed("fields.0.name", ...), "column number 1: 'name' is missing", "short name"),
    (changed("fields.0.name", ""), "empty name", "header"),
    (changed("fields.1.name", "age"), "column 'age' is listed twice", "must differ"),
    (changed("fields.0.type", ...), "column 'age': 'type' is missing", "integer"),
    (changed("fields.0.type", "int"), "column 'age': type", "'integer'"),
    (changed("fields.0.role", "secret"), "column 'age': role", "'private'"),
    (changed("fields.0.weight", True), "column 'age': unknown key 'weight'", "role: weight"),
    (changed("weight", "age"), "unknown key 'weight'", "role: weight"),
    (changed("fields.0.mininum", 3), "column 'age': unknown key 'mininum'", "did you mean 'minimum'"),
    (changed("fields.0.min", 3), "column 'age': unknown key 'min'", "is called minimum"),
    (changed("fields.0.width", 3), "column 'age': unknown key 'width'", "bins: {width: 5}"),
    (changed("fields.0.bins", 3), "column 'age': bins must be a mapping", "write 'bins: {width: 5}'"),
    (changed("fields.0.type", "int"), "column 'age': type must be", "; write integer"),
    (changed("fields.0.type", "int64"), "column 'age': type must be", "; write integer"),
    (changed("fields.0.type", "varchar(20)"), "column 'age': type must be", "; write string"),
    (changed("fields.0.type", "Float32"), "column 'age': type must be", "; write number"),
    (changed("fields.0.type", "time"), "column 'age': type must be", "a time of day is a string"),
    (changed("fields.0.range", [0, 9]), "column 'age': unknown key 'range'", "write minimum: 0"),
    (changed("fields.0.na_values", [9]), "column 'age': unknown key 'na_values'", "codes that stand for nothing"),
    (changed("fields.0.missing_values", [9]), "unknown key 'missing_values'", "codes that stand for nothing"),
    (changed("fields.0.missing", [9]), "column 'age': missing must be boolean", "codes that stand for nothing"),
    (changed("fields.0.bins", {"n": 5}), "column 'age': bins: unknown key 'n'", "bins: {count: 20}"),
    (changed("fields.0.bins", {"step": 5}), "column 'age': bins: unknown key 'step'", "bins: {width: 5}"),
    (changed("fields.0.bins", {"breaks": [1]}), "bins: unknown key 'breaks'", "bins: {edges: ["),
    (changed("fields.1.enum", {"F": "women"}), "column 'sex': enum is a list", "collapse: {map: {"),
    (changed("unit", {"column": "id", "max": 3}), "unit: unknown key 'max'", "are max_rows"),
    (changed("fields", {"age": {}}), "fields must be list", "'- {name: age, type: integer, …}'"),
    (changed("fields.0.000", None), "column 'age': unknown key '000'", "a number has no commas"),
    (changed("fields.0.minimum:17", None), "column 'age': unknown key 'minimum:17'", "a space behind the colon"),
    (
        changed("fields.0.constraints", {}),
        "column 'age': unknown key 'constraints'",
        "directly under the column",
    ),
    (changed("fields.0.minimum", ...), "column 'age': type integer needs 'minimum'", "public bounds"),
    (changed("fields.0.minimum", 91), "column 'age': minimum (91)", "above maximum"),
    (changed("fields.0.minimum", "young"), "column 'age': minimum: 'young'", "whole number"),
    (changed("fields.0.minimum", 17.5), "column 'age': minimum: '17.5'", "whole number"),
    (changed("fields.0.minimum", "nan"), "column 'age': minimum: 'nan'", "whole number"),
    (changed("fields.0.minimum", -1e300), "column 'age'", "whole number"),
    (changed("fields.0.missing", "perhaps"), "column 'age': missing", "boolean"),
    (changed("fields.0.other", "18"), "column 'age': 'other'", "clipped"),
    (changed("fields.0.bins", {"width": 0}), "column 'age': bins.width", "above 0"),
    (changed("fields.0.bins", {"width": 2.5}), "column 'age': bins.width", "whole number"),
    (changed("fields.0.bins", {"width": "month"}), "column 'age': bins.width", "finite number"),
    (
        changed("fields.0.bins", {"width": 5, "count": 2}),
        "column 'age': bins needs exactly one",
        "count, width",
    ),
    (changed("fields.0.bins", {}), "column 'age': bins needs exactly one", "count, width"),
    (changed("fields.0.bins", {"count": 0}), "column 'age': bins.count", "at least 1"),
    (changed("fields.0.bins", {"count": 100}), "column 'age': bins.count", "only 74 different values"),
    (changed("fields.0.bins", {"edges": [17]}), "column 'age': bins.edges", "two edges"),
    (changed("fields.0.bins", {"edges": [17, 30, 30, 90]}), "column 'age': bins.edges", "increase"),
    (changed("fields.0.bins", {"edges": [18, 90]}), "column 'age': bins.edges", "begin at the minimum"),
    (changed("fields.0.bins", {"edges": [17, 80]}), "column 'age': bins.edges", "end at the maximum"),
    (
        changed("fields.0.bins", {"edges": [17, 90], "labels": ["a", "b"]}),
        "column 'age': bins.labels",
        "1 labels",
    ),
    (
        changed("fields.0.bins", {"width": 5, "labels": ["a"]}),
        "column 'age': bins.labels",
        "goes with bins.edges",
    ),
    (
        changed("fields.0.bins", {"widht": 5}),
        "column 'age': bins: unknown key 'widht'",
        "did you mean 'width'",
    ),
    (changed("fields.0.bins", {"round": 0}), "column 'age': bins.round", "above 0"),
    (field(type="integer", minimum=0, maximum=10**6), "column 'x': 1,000,001 levels", "add bins"),
    (field(type="number", minimum=0, maximum=1, bins={"width": 1e-9}), "column 'x'", "wider"),
    (
        field(type="number", minimum=0, maximum=1e300, bins={"width": 1e-300}),
        "column 'x': inf levels",
        "wider",
    ),
    (
        field(type="number", minimum=0, maximum=1e300, bins={"round": 1e-300}),
        "column 'x': inf levels",
        "wider",
    ),
    (
        field(type="number", minimum=-1e308, maximum=1e308),
        "column 'x': minimum and maximum are too far apart",
        "closer bounds",
    ),
    (field(type="number", minimum=1, maximum=1), "column 'x': minimum (1) must be below", "maximum"),
    (field(type="number", minimum=0, maximum="inf"), "column 'x': maximum: 'inf'", "finite number"),
    (
        field(type="date", minimum="1900-01-01", maximum="2020-01-01"),
        "column 'x': 43,830 days",
        "width: month",
    ),
    (
        field(type="date", minimum="2020-02-30", maximum="2021-01-01"),
        "column 'x': minimum: '2020-02-30'",
        "a date",
    ),
    (
        field(type="date", minimum="2020-01-01", maximum="2021-01-01", bins={"width": "fortnight"}),
        "column 'x': bins.width",
        "week, month",
    ),
    (
        field(type="date", minimum="2020-01-01", maximum="2021-01-01", bins={"round": 7}),
        "column 'x': bins.round",
        "width",
    ),
    (field(type="datetime", minimum="1000-01-01", maximum="2021-01-01"), "column 'x'", "width: month"),
    (field(type="string"), "column 'x': type string needs 'enum'", "code-list"),
    (field(type="string", enum=[]), "column 'x': the list of values is empty", "at least one"),
    (field(type="string", enum=["a", "b", "a"], other="a"), "column 'x': value 'a' is listed twice", "once"),
    (field(type="string", enum=["a", ""], other="a"), "column 'x': an empty value", "missing: true"),
    (field(type="string", enum=["a", " b"], other="a"), "column 'x': value ' b'", "remove them"),
    (
        field(type="string", enum=["a", "(missing)"], other="a"),
        "column 'x': value '(missing)'",
        "missing: true",
    ),
    (field(type="string", enum=["a", "b\0"], other="a"), "column 'x': a value contains NUL", "remove it"),
    (field(type="string", enum=["a", "b"], other="c"), "column 'x': other 'c'", "add it to enum"),
    (
        field(type="string", enum=["a", "b"]),
        "column 'x': say where a value outside enum goes",
        "other: LABEL",
    ),
    (field(type="string", enum="nowhere.csv"), "column 'x': nowhere.csv", "does not exist"),
    (
        field(type="string", enum=["a"], minimum=3, other="a"),
        "column 'x': 'minimum' does not go with enum",
        "remove",
    ),
    (field(type="string", enum=["a"], values=["a"]), "column 'x': unknown key 'values'", "enum"),
    (
        field(type="string", enum=["a"], collapse={}),
        "column 'x': collapse needs exactly one",
        "prefix, file, map",
    ),
    (field(type="string", enum=["a"], collapse={"prefix": 0}), "column 'x': collapse.prefix", "at least 1"),
    (
        field(type="string", enum=["a"], collapse={"map": {"b": "c"}}),
        "column 'x': collapse.map names 'b'",
        "raw values",
    ),
    (
        field(type="string", enum=["a"], collapse={"below": 200}),
        "column 'x': collapse: unknown key 'below'",
        "public",
    ),
    (field(type="integer", enum=["01"], other="01"), "column 'x': enum value '01'", "type: string"),
    (field(type="integer", enum=[3, 1], ordered=True, other=1), "column 'x': ordered", "increasing"),
    (field(type="number", enum=[0.5]), "column 'x': enum goes with", "bins"),
    (field(type="boolean", enum=["a"]), "column 'x': 'enum' does not go with a boolean", "remove"),
    (rule({}), "never is empty", "at least one column"),
    (rule({"height": "tall"}), "column 'height'", "not in fields"),
    (rule({"sex": "X"}), "column 'sex': 'X' is not one of its labels", "F, M"),
    (rule({"sex": {"below": "M"}}), "column 'sex': ranges need an ordered column", "ordered: true"),
    (rule({"age": {"under": 3}}), "column 'age': unknown condition 'under'", "below"),
    (rule({"age": {"below": "young"}}), "column 'age', below: 'young'", "whole number"),
    (rule({"sex": {"missing": True}}), "column 'sex': it has no missing level", "missing: true"),
    (rule({"sex": ["F", "M"]}), "every value of column 'sex'", "narrow"),
    (changed("rules", [{"always": {}}]), "rule number 1: unknown key 'always'", "never"),
    (changed("provenance", "guessed"), "provenance", "data-derived"),
    (
        changed("neighbours", "label") | {"fields": [GOOD["fields"][0]]},
        "neighbours is label",
        "role: private",
    ),
]


@pytest.mark.parametrize(("data", "named", "remedy"), BROKEN, ids=[f"{i}: {n}" for i, (_, n, _) in enumerate(BROKEN)])
def test_broken_schema(data: dict[str, Any], named: str, remedy: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_dict(data)
    message = str(caught.value)
    assert named in message
    assert remedy in message
    assert "\n" not in message
    assert "pydantic" not in message


def test_the_good_schema_is_good() -> None:
    assert Schema.from_dict(GOOD).size() == 60


def test_outside_values_may_be_dropped_under_add_remove_only() -> None:
    data = field(type="string", enum=["a", "b"])
    Schema.from_dict(data | {"neighbours": "add-remove"})
    for relation in ("replace", "label"):
        with pytest.raises(SchemaError, match=f"column 'x'.*under {relation}"):
            Schema.from_dict(data | {"neighbours": relation})
    Schema.from_dict(field(type="string", enum=["a", "b"], missing=True))


BAD_TEXT: list[tuple[bytes, str]] = [
    (b"", "must be a mapping"),
    (b"- a\n- b\n", "must be a mapping"),
    (b"name: [a\nunit: row\n", "line 2, character 5: not valid YAML"),
    (b"name: a\n\tunit: row\n", "line 2, character 1: not valid YAML"),
    (b"name: a\nname: b\n", "line 2, character 1: 'name' is given twice"),
    (b"a: &x 1\nb: 2\n", "line 1, character 4: anchors and aliases"),
    (b"a: *x\n", "line 1, character 4: anchors and aliases"),
    (b"a: !!python/object/apply:os.system [ls]\n", "line 1, character 4: tags"),
    (b"a: 1\n---\nb: 2\n", "line 2, character 1: a second document"),
    (b"[" * 200_000, "nested more than"),
    (b"{a: " * 200_000, "nested more than"),
    (b"name: \xff\xfe\n", "not UTF-8"),
    ("name: a\n".encode("utf-16"), "not UTF-8"),
    (b"name: a\x00b\n", "not valid YAML"),
    (b"? [a]\n: b\n", "a key must be plain text"),
    (b"<<: {a: 1}\n", "unknown key '<<'"),
]


@pytest.mark.parametrize(("text", "said"), BAD_TEXT, ids=[said for _, said in BAD_TEXT])
def test_unreadable_file(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(text)
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("type: date,", "type: day,", ", line 6, character 13: column 'b': type must be"),
        ("type: date,", "typ: date,", ", line 6, character 13: column 'b': unknown key 'typ'; did you mean 'type'?"),
        ("2011-12-31", "2010-12-31", ", line 6, character 25: column 'b': minimum (2011-01-01) is above maximum"),
        ("2011-12-31", "2011-02-30", ", line 6, character 46: column 'b': maximum: '2011-02-30' is not a date"),
        ("name: b, ", "", ", line 6, character 3: column number 2: 'name' is missing"),
        ("name: b, ", "name: ' ', ", ", line 6, character 3: a column has an empty name"),
        ("unit: row", "unit: {column: id}", ", line 2, character 1: unit: 'max_rows' is missing"),
        ("name: b", "name: a", ", line 6, character 4: column 'a' is listed twice"),
        (
            "fields:",
            "analyses: [b ~ a, a ~ c]\nfields:",
            ", line 4, character 1: analysis 'a ~ c' names 'c', which is no",
        ),
        ("neighbours: replace", "neighbours: swap", ", line 3, character 1: neighbours is 'swap'"),
        (
            "fields:",
            "rules:\n- {never: {c: x}}\nfields:",
            ", line 5, character 3: a rule names column 'c', which is not",
        ),
        ("fields:", "rules: [{determines: {a: b}}]\nfields:", ", line 4, character 9: determines names one pair"),
    ],
)
def test_a_message_names_line_and_character(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = """name: people
unit: row
neighbours: replace
fields:
- {name: a, type: boolean}
- {name: b, type: date, minimum: 2011-01-01, maximum: 2011-12-31}
"""
    path = tmp_path / "s.yaml"
    path.write_text(text)
    Schema.read(path)
    path.write_text(text.replace(old, new))
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    assert str(caught.value).startswith(f"{path}{said}")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="does not exist"):
        Schema.read(tmp_path / "none.yaml")
    with pytest.raises(SchemaError, match="folder"):
        Schema.read(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must name a column 'code'"),
        ("id\n1\n", "must name a column 'code'"),
        ("code\n", "no values"),
        ("code,label\n1,a\n2\n", "line 3: 1 fields"),
        ("code\na\nb\na\n", "value 'a' is listed twice"),
        ('code\n"a\n', "not readable as csv"),
    ],
)
def test_broken_code_list(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(text)
    with pytest.raises(SchemaError, match="column 'x'") as caught:
        Schema.from_dict(field(type="string", enum="codes.csv", missing=True), base=tmp_path)
    assert said in str(caught.value)


scalars = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.text(max_size=5))
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "enum", "bins", "width", "never", "x", "missing"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_wrong_value_anywhere_escapes_as_another_error(data: st.DataObject) -> None:
    """Put junk in any place of a good schema: it loads, or one of our errors says why not."""
    schema = copy.deepcopy(GOOD) | {"rules": [{"never": {"age": {"below": 27}, "sex": "F"}}], "notes": ["n"]}
    target: Any = schema
    while True:
        key = data.draw(st.sampled_from(list(target) if isinstance(target, dict) else range(len(target))))
        if isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans()):
            target = target[key]
            continue
        target[key] = data.draw(junk)
        break
    try:
        Schema.from_dict(schema)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is fine


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from("ab:-[]{}&*!|>'\"#%@`,? \n\t0\0"), max_size=40))
def test_no_text_escapes_the_reader(text: str) -> None:
    try:
        parse(text)
    except SchemaError as error:
        assert "\n" not in str(error)  # noqa: PT017


CANARY = "CANARY7351"


@pytest.mark.parametrize("content", [f"id,ill\n7351,{CANARY}\n", f"{CANARY}\n", f"{CANARY};1\n{CANARY};2\n"])
def test_a_private_table_in_the_place_of_a_schema_or_code_list_is_not_quoted(tmp_path, content):
    table, schema = tmp_path / "table.csv", tmp_path / "schema.yaml"
    table.write_text(content)
    with pytest.raises(SchemaError, match="is it a schema file") as refused:
        Schema.read(table)
    assert CANARY not in str(refused.value)
    for field in ("enum: table.csv", "enum: [a], collapse: {file: table.csv}"):
        schema.write_text(
            f"name: a\nunit: row\nneighbours: add-remove\nfields:\n  - {{name: a, type: string, {field}}}\n"
        )
        with pytest.raises(SchemaError, match="must name a column 'code'") as refused:
            Schema.read(schema)
        assert CANARY.lower() not in str(refused.value).lower()


def test_a_file_that_never_ends_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr("dipsmith.schema.files.MAX_CHARACTERS", 1_000_000)
    with pytest.raises(SchemaError, match="larger than 1 MB"):
        Schema.read("/dev/zero")
