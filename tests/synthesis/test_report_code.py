"""The lines to copy in a report: whatever columns and levels are called, they are one call with one text."""

import ast
import shlex
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dipsmith.report.content import Code
from dipsmith.report.sections import block
from dipsmith.schema import Schema
from dipsmith.schema.formula import Formula
from dipsmith.synthesis.report import _analysis
from dipsmith.synthesis.report_sections import suggested_formula
from dipsmith.synthesis.supports import Support

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda t: t.strip(" ") == t and t != "(missing)"
)
ATTACKS = (
    '"); import os; os.system("id")  #',
    "a`b",
    "`",
    "x\ny",
    "'\"",
    "\\",
    "</pre><script>",
    "Q('x')",
    "log(x)",
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    columns=st.lists(st.one_of(st.sampled_from(ATTACKS), texts), min_size=1, max_size=4, unique=True),
    levels=st.lists(st.one_of(st.sampled_from(ATTACKS), texts), min_size=1, max_size=3, unique=True),
)
@example([ATTACKS[0]], [ATTACKS[0]])
@example(["a`b"], ["x"])
@example(["plain"], ["'\""])
def test_the_lines_to_copy_are_code_with_one_formula(columns, levels):
    fields = [{"name": c, "type": "string", "enum": levels, "other": levels[0]} for c in columns if c.strip()]
    if not fields:
        return
    schema = Schema.from_dict({"name": "t", "unit": "row", "neighbours": "add-remove", "fields": fields})
    measured = Support("", tuple(schema.names), "measured", "")
    release = SimpleNamespace(
        card=SimpleNamespace(each=None, neighbours="label"),
        schema=schema,
        results=(),
        measurements=(1,),
        support_index=SimpleNamespace(formula=lambda formula: measured),
    )
    with patch(
        "dipsmith.synthesis.report_sections.supports", lambda *_: measured
    ):  # a release that can answer everything
        blocks = _analysis(release, SimpleNamespace(several_files=False, careers=None))
    python = next(b for b in blocks if isinstance(b, Code))
    tree = ast.parse(python.text)
    kinds = [type(s).__name__ for s in tree.body]
    if len(kinds) == 3:  # nothing can be written as a formula of two columns
        assert kinds == ["Import", "Assign", "Expr"]
        assert "ds.fit" not in python.text
        return
    assert kinds == ["Import", "Assign", "Expr", "Expr"]
    call = tree.body[-1].value
    assert ast.unparse(call.func) == "ds.fit"
    formula = ast.literal_eval(call.args[1])
    assert len(call.args) == 2
    assert python.text.count("\n") == 3
    found = Formula.parse(formula).attributes
    assert set(found) <= {*schema.names, "RESPONSE", "TERMS"}
    assert all("<script" not in block(b) for b in blocks if isinstance(b, Code))
    in_a_shell = next(b.text for b in blocks if isinstance(b, Code) and b.text.startswith("dipsmith"))
    assert shlex.split(in_a_shell) == ["dipsmith", "fit", "FOLDER", formula]


def test_nothing_is_suggested_that_the_release_cannot_answer():
    names = ["a", "b", "c"]
    fields = [{"name": n, "type": "string", "enum": ["0", "1"], "other": "0"} for n in names]
    schema = Schema.from_dict({"name": "t", "unit": "row", "neighbours": "add-remove", "fields": fields})

    def supports(formula):
        held = {"b", "c"}
        level = "measured" if set(Formula.parse(formula).attributes) <= held else "not carried"
        return Support(formula, (), level, "")

    release = SimpleNamespace(
        card=SimpleNamespace(each=None, neighbours="label"), schema=schema, results=(), measurements=(1,)
    )
    release.support_index = SimpleNamespace(formula=supports)
    with patch("dipsmith.synthesis.report_sections.supports", lambda _, formula: supports(formula)):
        assert suggested_formula(release) == "b ~ c"
    release.support_index = SimpleNamespace(formula=lambda formula: Support(formula, (), "not carried", ""))
    assert suggested_formula(release) is None
    blocks = _analysis(release, SimpleNamespace(several_files=False, careers=None))
    assert not any("ds.fit(" in getattr(b, "text", "") for b in blocks)
    assert any("No regression is suggested" in str(b) for b in blocks)
    release.results = (SimpleNamespace(formula="a ~ b", coefficients=()),)
    assert suggested_formula(release) == "a ~ b"
