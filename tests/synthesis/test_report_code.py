"""The lines to copy in a report: whatever columns and levels are called, they are one call with one text."""

import ast
from types import SimpleNamespace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dipsmith.report.content import Code
from dipsmith.report.sections import code
from dipsmith.schema import Schema
from dipsmith.schema.formula import Formula
from dipsmith.synthesis.report import _analysis

texts = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12
).filter(lambda t: t.strip(" ") == t and t != "(missing)")
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
    release = SimpleNamespace(card=SimpleNamespace(each=None), schema=schema)
    blocks = _analysis(release, SimpleNamespace(several_files=False))
    python = next(b for b in blocks if isinstance(b, Code))
    tree = ast.parse(python.text)
    assert [type(s).__name__ for s in tree.body] == ["Import", "Assign", "Expr", "Expr"]
    call = tree.body[-1].value
    assert ast.unparse(call.func) == "ds.fit"
    formula = ast.literal_eval(call.args[1])
    assert len(call.args) == 2
    assert python.text.count("\n") == 3
    found = Formula.parse(formula).attributes
    assert set(found) <= {*schema.names, "RESPONSE", "TERMS"}
    assert "<script" not in code(python)
