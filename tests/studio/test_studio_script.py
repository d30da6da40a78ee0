"""Everything that the studio generates to be run or typed holds values as values: no name, code or path becomes code."""

import ast
import shlex
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dipsmith.errors import UsageError
from dipsmith.schema import Schema
from dipsmith.studio.choices import Choices
from dipsmith.studio.script import literal

ATTACKS = (
    '"""\nimport os; os.system("touch marker")\n"""',
    "'''+__import__('os').system('touch marker')+'''",
    "x\n__import__('os').abort()\n#",
    "\\",
    "\\'",
    'a"); raise SystemExit("',
    "$(touch marker)`touch marker`",
    "--help",
    "; touch marker #",
    "\u2028import os",
    "\r\nimport os",
    "{0.__class__}",
)
texts = st.one_of(
    st.sampled_from(ATTACKS),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1),
)
analyses = st.lists(
    st.fixed_dictionaries(
        {"formula": texts, "by": st.none() | texts, "reference": st.dictionaries(texts, texts, max_size=2)}
    ),
    max_size=3,
)
CALLS = [
    "Schema.from_dict",
    "Ledger",
    "synthesize",
    "Marginals",
    "PureDP",
    "release.save",
    "print",
    "compare",
    "found.save",
]


def schema_called(name: str, columns: list[str], label: str) -> Schema:
    """A schema whose name was never checked, as one that another program made."""
    codes = [f"<{label}>", f"[{label}]"]
    fields = [{"name": f"c{c}", "type": "string", "enum": codes, "other": codes[0]} for c in columns]
    made = Schema.from_dict({"name": "plain", "unit": "row", "neighbours": "add-remove", "fields": fields})
    object.__setattr__(made, "name", name)
    return made


class Recorder:
    """Stands for the package while a script runs: notes every call, does nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple, dict]] = []

    def module(self) -> types.ModuleType:
        found = types.ModuleType("dipsmith")
        for name in ("Ledger", "Marginals", "PureDP", "synthesize", "compare"):
            setattr(found, name, self.noting(name))
        found.Schema = types.SimpleNamespace(from_dict=self.noting("Schema.from_dict"))
        return found

    def noting(self, name: str):
        def note(*given, **named):
            self.calls.append((name, given, named))
            kept = {"synthesize": "release", "compare": "found"}.get(name, name)
            return types.SimpleNamespace(save=self.noting(f"{kept}.save"), __str__=lambda: name)

        return note


@settings(max_examples=80, deadline=None)
@given(
    name=texts,
    columns=st.lists(texts, min_size=1, max_size=3, unique=True),
    files=st.tuples(texts, texts, texts),
    asked=analyses,
)
@example(ATTACKS[0], [ATTACKS[1]], (ATTACKS[2], ATTACKS[3], ATTACKS[5]), [])
@example(ATTACKS[5], ["a"], ("a", "b", "c"), [])
def test_a_script_is_the_expected_calls_whatever_the_values_say(name, columns, files, asked):
    """It parses to exactly the calls it should make, with the inputs as constants; run, it makes these and nothing else."""
    data, ledger, out = files
    schema = schema_called(name, columns, name)
    comparison = {"releases": [out], "analyses": asked, "classifiers": [name]}
    formulas = tuple(a["formula"] for a in asked)
    chosen = Choices("marginals", amount="0.5", settings={"cliques": 2}, format="csv", rows=7, analyses=formulas)
    text = chosen.script(schema, data, ledger, out, comparison)

    tree = ast.parse(text)
    allowed = (ast.Expr, ast.Import, ast.Assign)
    assert [type(s) for s in tree.body if not isinstance(s, allowed)] == []
    assert (
        ast.get_docstring(tree, clean=False)
        == f"Synthetic data in place of {name}: what was chosen in the studio, as a script."
    )
    (imported,) = [s for s in tree.body if isinstance(s, ast.Import)]
    assert [(a.name, a.asname) for a in imported.names] == [("dipsmith", "ds")]
    made = [ast.unparse(n.func).removeprefix("ds.") for n in ast.walk(tree) if isinstance(n, ast.Call)]
    assert sorted(made) == sorted(CALLS)
    (declared,) = [s.value for s in tree.body if isinstance(s, ast.Assign) and s.targets[0].id == "SCHEMA"]
    assert ast.literal_eval(declared) == schema.to_dict()

    recorder, printed = Recorder(), []
    before = sys.modules["dipsmith"]
    sys.modules["dipsmith"] = recorder.module()
    try:
        exec(compile(tree, "script", "exec"), {"print": printed.append})
    finally:
        sys.modules["dipsmith"] = before
    calls = {call: (given, named) for call, given, named in recorder.calls}
    assert [call for call, _, _ in recorder.calls] == [
        *(
            "Schema.from_dict",
            "Ledger",
            "Marginals",
            "PureDP",
            "synthesize",
            "release.save",
            "compare",
            "found.save",
        )
    ]
    assert len(printed) == 1
    assert calls["Schema.from_dict"][0] == (schema.to_dict(),)
    assert calls["Ledger"] == ((ledger,), {})
    assert calls["PureDP"] == (("0.5",), {})
    assert calls["Marginals"] == ((), {"cliques": 2})
    assert calls["synthesize"][0][0] == data
    assert calls["synthesize"][1]["known_rows"] == 7
    assert calls["synthesize"][1].get("analyses", []) == list(formulas)
    assert calls["release.save"] == ((), {"folder": out, "format": "csv"})
    assert calls["compare"][0][0] == data
    assert calls["compare"][1]["analyses"] == asked
    assert calls["compare"][1]["classifiers"] == [name]


@settings(max_examples=80, deadline=None)
@given(files=st.tuples(texts, texts, texts, texts), values=st.lists(texts, max_size=3), amount=texts)
def test_commands_and_yaml_hold_values_as_values(files, values, amount):
    """A shell takes a command apart into the words that were meant; YAML gives back what was put in."""
    schema_file, data, ledger, out = files
    chosen = Choices("forest", "approx", amount, amount, settings={"targets": values}, analyses=(amount,))
    words = shlex.split(chosen.run_command(schema_file, data, "label", ledger, out))
    named = dict(zip(words[3::2], words[4::2], strict=True))
    assert words[:2] == ["dipsmith", "synthesize"]
    assert Path(words[2]) == Path(data)
    assert not words[2].startswith("-")
    assert list(named) == [
        *("--schema", "--method", "--epsilon", "--delta", "--set", "--analysis", "--ledger", "--out")
    ]
    assert (named["--epsilon"], named["--delta"], named["--analysis"]) == (amount, amount, amount)
    assert yaml.safe_load(named["--set"].removeprefix("targets=")) == values
    for option, given_file in (("--schema", schema_file), ("--ledger", ledger), ("--out", out)):
        assert Path(named[option]) == Path(given_file)
    told = yaml.safe_load(chosen.to_yaml(data, schema_file))
    assert (told["data"], told["schema"], told["epsilon"]) == (data, schema_file, amount)
    assert told.get("settings", {}).get("targets", []) == values
    assert told["analyses"] == [amount]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: print}, type, ..., "x" and ast.parse("1")])
def test_what_is_no_plain_value_is_refused(value):
    with pytest.raises(UsageError, match="cannot be written into a script"):
        literal(value)


def test_settings_that_are_no_words_are_refused():
    schema = schema_called("people", ["a"], "x")
    with pytest.raises(UsageError):
        Choices(method="marginals", settings={"cliques=2); print(": 1}).script(schema, "d", "l", "o")
    assert "cliques=3" in replace(Choices(method="marginals"), settings={"cliques": 3}).script(schema, "d", "l", "o")
