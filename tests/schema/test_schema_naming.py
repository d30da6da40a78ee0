"""A table's name is a plain line; a draft takes a plain one from any file's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dipsmith.errors import SchemaError
from dipsmith.schema import Schema
from dipsmith.schema.naming import check_name, plain_name

FIELDS = [{"name": "anything at all: `'\"\\", "type": "boolean"}]


def named(name: str) -> Schema:
    return Schema.from_dict({"name": name, "unit": "row", "neighbours": "add-remove", "fields": FIELDS})


@pytest.mark.parametrize(
    "name",
    ["people", "Personnel 2011", "Bund & Länder (2. Welle)", "人口", "जनगणना", "a+b_c-d.e,f", "7", "x" * 100],
)
def test_plain_names_are_taken_as_they_are(name):
    assert named(name).name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ('"""\nimport os', "name has a '\"'"),
        ("a\nb", "name has a character U\\+000A"),
        ("a\u2028b", "U\\+2028"),
        ("a\u202eb", "U\\+202E"),
        ("a\0", "U\\+0000"),
        ("<b>", "name has a '<'"),
        ("$(id)", "name has a '\\$'"),
        ("a;b", "name has a ';'"),
        ("a`b", "name has a '`'"),
        ("../x", "name has a '/'"),
        ("-rf", "begins or ends"),
        ("La\u0308nder", "NFC"),
        (" a", "begins or ends"),
        ("a ", "begins or ends"),
        (".hidden", "begins or ends"),
        ("x" * 101, "name has 101 characters"),
        ("  ", "name is empty"),
    ],
)
def test_other_names_are_refused_with_the_rule(name, says):
    with pytest.raises(SchemaError, match=says) as refused:
        named(name)
    assert "\n" not in str(refused.value)
    if name.strip():
        assert "begins with a letter or digit" in str(refused.value)


def test_a_schema_made_in_python_is_checked_too():
    from dataclasses import replace

    with pytest.raises(SchemaError, match="name has a"):
        replace(named("people"), name="x'y")


@pytest.mark.slow
@given(st.text(max_size=200))
def test_a_draft_always_gets_a_plain_name(text):
    check_name(plain_name(text))
