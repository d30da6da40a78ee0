"""A formula only ever does arithmetic, whatever the columns are called that it names."""

import contextlib
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dipsmith as ds
from dipsmith.errors import DipsmithError, UsageError
from dipsmith.regression.arithmetic import evaluate
from dipsmith.regression.formula import RegressionFormula, expand, name_of
from dipsmith.regression.model_frame import levels_of, model_frame
from dipsmith.schema.formula import Formula
from dipsmith.schema.formula.parser import parse
from dipsmith.schema.formula.tree import Call, Column, Operation, quote, spell


def code(mark):
    """A column's name that ends a quoted name, and goes on in Python."""
    return f"x` + I(__import__('os').system('touch {mark}')) + `x"


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "ran"


@pytest.mark.parametrize("written", ['y ~ x + Q("{}")', 'Q("{}") ~ x', 'y ~ log(Q("{}")) + x', 'y ~ x | Q("{}")'])
def test_the_name_of_a_column_in_a_loaded_release_is_not_run(tmp_path, mark, written):
    name = code(mark)
    with contextlib.suppress(DipsmithError):
        layout = ds.Schema.from_dict(
            {
                "name": "v",
                "unit": "row",
                "neighbours": "replace",
                "fields": [{"name": n, "type": "boolean"} for n in ("y", "x", name)],
            }
        )
        table = pa.table({"y": [True, False] * 20, "x": [True, True, False, False] * 10, name: [True] * 40})
        release = ds.synthesize(table, layout, ds.Flat(), budget=ds.PureDP(2), testing=True, noise_seed=1)
        release.save(tmp_path / "release")
        ds.fit(ds.Release.load(tmp_path / "release"), written.format(name), rule="sampling", family="ols")
    assert not mark.exists()


NAMES = [
    "a`b",
    "`",
    "__import__('os').system('true')",
    "x` + I(__import__('os').system('true')) + `x",
    "{x}",
    "x); import os; os.system('true'); (x",
    "two\nlines",
    "tab\tand\x00nothing",
    'with "double" quotes',
    "lambda: 0",
    "a\\",
    "log",
    "C",
    "Q",
    "True",
    "np.pi",
    "1",
    "a:b",
    "~",
    "|",
    " ",
    "e\u0301 \u202e",
]

WATCHED = """
import sys
import numpy as np
import pyarrow as pa
import dipsmith as ds
from dipsmith.schema.formula import Formula
from dipsmith.schema.formula.tree import quote

names = NAMES
rng = np.random.default_rng(1)


def everything(name):
    column = quote(name)
    table = pa.table({"y": rng.random(30), "x": rng.random(30), name: rng.integers(1, 4, 30).astype(float)})
    labels = pa.table({"y": rng.random(30), "x": rng.random(30), name: ["p", name, "q"] * 10})
    found = []
    for text in (f"y ~ x + {column}", f"log({column}) ~ x", f"y ~ I({column}^2) + x*{column}", f"{column} > 1.5 ~ x",
                 f"y ~ x | {column}", f"y ~ C({column})"):
        Formula.parse(text)
        found.append(ds.fit(table, text, family="ols").names)
    for text in (f"y ~ {column}*x", f"y ~ 0 + {column}", f"I({column} == 'p') ~ x", f"y ~ x | {column}"):
        Formula.parse(text)
        found.append(ds.fit(labels, text, family="ols").names)
    return found


everything("warm")
events = []


def hear(event, arguments):
    if event in ("compile", "exec", "import", "open", "code.__new__", "function.__new__", "builtins.input") or (
        event.partition(".")[0] in ("os", "subprocess", "shutil", "ctypes", "pickle", "marshal", "socket", "cpython")
    ):
        events.append((event, str(arguments)[:200]))


sys.addaudithook(hear)
named = [everything(name) for name in names]
heard = list(events)
print(sum(map(len, named)), heard)
eval("1 + 1")
print(sorted({event for event, _ in events[len(heard):]}))
"""


@pytest.mark.slow
def test_no_name_of_a_column_compiles_runs_or_opens_anything():
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED.replace("NAMES", repr(NAMES), 1)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    quiet, loud = ran.stdout.splitlines()
    assert quiet == f"{10 * len(NAMES)} []"
    # The same hook does hear what it listens for.
    assert loud == "['compile', 'exec']"


writable = st.text(min_size=1, max_size=30).filter(lambda n: not ("`" in n and '"' in n and "'" in n))


@settings(max_examples=300, deadline=None)
@given(writable)
@example("x` + I(__import__('os').system('true')) + `x")
@example("A·")
@example("e\u0301")
def test_any_name_is_one_column(name):
    found = parse(f"y ~ {quote(name)} + log({quote(name)})").sections[0]
    assert found == Operation(("+",), (Column(name), Call("log", (Column(name),))))
    column = Column(name)
    assert evaluate(found.parts[1], {name: np.array([1.0, np.e])}, 2).tolist() == [0.0, 1.0]
    assert [name_of(f) for t in expand(found) for f in t.factors] == [name, spell(Call("log", (column,)))]


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                [
                    *"()+-*/:^~|&%,=<>",
                    "==",
                    "**",
                    "a",
                    "b",
                    "y",
                    "2",
                    "0",
                    "1",
                    "I(",
                    "log(",
                    "C(",
                    'Q("a")',
                    "`b`",
                    "'t'",
                ]
            ),
            max_size=25,
        ).map(" ".join),
    )
)
@example("y ~ " + "(" * 30)
@example("y ~ a^b")
@example("y ~ I('t')")
@example("y ~ I(a == b == 1)")
@example("y ~ a\n\nb")
def test_any_other_text_is_refused_in_one_line(text):
    for reading in (Formula.parse, lambda t: RegressionFormula.parse(t, ["a", "b", "y"])):
        said = "one line"
        try:
            reading(text)
        except UsageError as error:
            said = str(error)
        assert len(said.splitlines()) == 1
        assert len(said) < 700


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from([*"()+-*/^&%,<>", "==", "a", "b", "2", ".5", "I(", "log(", "'t'", "`a b`"]),
        max_size=20,
    )
)
def test_what_is_written_is_read_as_the_same(words):
    try:
        response = parse(f"{' '.join(words)} ~ 1").response
    except UsageError:
        return
    assert spell(parse(f"{spell(response)} ~ 1").response) == spell(response)


LONG = [
    "(" * 3000 + "a" + ")" * 3000,
    "I" + "(" * 3000 + "a" + ")" * 3000,
    "log(" * 2000 + "a" + ")" * 2000,
    "I(" + "-" * 5000 + "a)",
    "^".join(["a"] * 3000),
    "I(" + "^".join(["a"] * 3000) + ")",
    "(" + " + ".join(f"I(a + {i})" for i in range(30)) + ")^9",
    "*".join(f"I(a + {i})" for i in range(40)),
    ":".join(f"I(a + {i})" for i in range(40)),
    ":".join(["(" + "*".join(f"I(a^{i})" for i in range(8)) + ")"] * 120),
    " + ".join(f"I(a + {i})" for i in range(600)),
    "a + " * 5000 + "a",
    "I(a^99999999999)" + " + (a + b)^99999999999",
    "(a + b)^0",
    "(a + b)^(a + b)",
    "2*a",
    "a - (b | a)",
    '"' * 9000,
]


@pytest.mark.parametrize("terms", LONG, ids=range(len(LONG)))
def test_formulas_without_measure_are_refused_at_once(terms):
    start = time.process_time()
    with pytest.raises(UsageError) as caught:
        RegressionFormula.parse(f"y ~ {terms}", ["y", "a", "b"])
    assert time.process_time() - start < 3
    assert len(str(caught.value)) < 700


def test_long_sums_are_read():
    table = pa.table({"y": [1.0, 2.0, 4.0], "a": [0.0, 1.0, 2.0]})
    assert ds.fit(table, "y ~ " + "a + " * 2000 + "a").names == ("Intercept", "a")
    assert ds.fit(table, f"y ~ I({'a + ' * 2000}a)")[f"I({'a + ' * 2000}a)"].value > 0
    # Numbers are double precision, not Python's: nothing is computed to a million digits.
    with pytest.raises(UsageError, match="no row is left"):
        ds.fit(table, "y ~ I(a + 9^9^9^9)")


def test_coefficients_without_number_are_refused():
    table = pa.table({n: [f"{n}{i}" for i in range(200)] for n in ("a", "b", "c")} | {"y": list(range(200))})
    with pytest.raises(UsageError, match="coefficients, at most 10,000"):
        ds.fit(table, "y ~ a*b*c")


@pytest.mark.parametrize(
    ("names", "formula", "called"),
    [
        (("a", "b", "a:b"), "y ~ a:b + `a:b`", "a:b"),
        (("Intercept",), "y ~ Intercept", "Intercept"),
        (("Intercept",), "y ~ 0 + Intercept", "Intercept"),
    ],
)
def test_two_coefficients_of_one_name_are_refused(names, formula, called):
    rng = np.random.default_rng(0)
    table = pa.table({n: rng.random(20) for n in ("y", *names)})
    with pytest.raises(UsageError, match=f"'{called}'"):
        ds.fit(table, formula)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ log(a, b)", "not a function of one thing"),
        ("y ~ log()", "not a function of one thing"),
        ("y ~ C(s, levels=a)", "not a function of one thing"),
        ("y ~ C(a + b)", "C takes one column"),
        ("y ~ log(C(s))", "cannot be evaluated"),
        ("y ~ I(a & b)", "cannot be evaluated"),
        ("y ~ I(a == 's')", "cannot be evaluated"),
        ("y ~ I(s == 2)", "cannot be evaluated"),
        ("y ~ I(s < 'x')", "cannot be evaluated"),
        ("y ~ I('x' == 'x')", "cannot be evaluated"),
        ("y ~ I('x')", "cannot be evaluated"),
        ("y ~ I(1 < a < 2)", "two at a time"),
        ("y ~ a == 1", "cannot be read at '=='"),
        ("y ~ a % b", "cannot be read at '%'"),
        ("y ~ 'a'", "a text in quotes"),
        ("y ~ Q(a)", "Q takes"),
        ("y ~ a b", "cannot be read at 'b'"),
        ("y ~ (a", "cannot be read at its end"),
        ("y ~ a)", "cannot be read at '\\)'"),
        ("y ~ 2:a", "is no term"),
        ("y ~ a:-1", "cannot be read"),
        ("y:a ~ b", "cannot be read at ':'"),
        ("y ~ (a | b)", "one bar at most"),
        ("y ~ a | b - s", "fixed effects are columns"),
        ("y ~ a | b^2", "fixed effects are columns"),
    ],
)
def test_syntax_that_is_refused(formula, said):
    table = pa.table({"y": [1.0, 2.0, 4.0], "a": [0.0, 1.0, 2.0], "b": [3.0, 1.0, 2.0], "s": ["x", "y", "x"]})
    with pytest.raises(UsageError, match=said):
        ds.fit(table, formula)


def test_comparisons_are_ones_and_zeros():
    table = pa.table({"y": [1.0, 2.0, 4.0], "a": [0.0, 1.0, 2.0], "s": ["x", "y", "x"], "t": ["y", "y", "x"]})

    def values(text):
        formula = RegressionFormula.parse(f"{text} ~ 1", table.column_names)
        return model_frame(formula, table, levels_of(formula, [table], None, {})).y.tolist()

    assert values("(a > 0) + (a > 1)") == [0.0, 1.0, 2.0]
    assert values("(a > 0) & (s == 'x')") == [0.0, 0.0, 1.0]
    assert values("'x' != s") == [0.0, 1.0, 0.0]
    assert values("s == t") == [0.0, 1.0, 1.0]
    with pytest.raises(UsageError, match="column 's' has no level 'nowhere'"):
        values("s == 'nowhere'")
    assert values("-(a >= 1) % 2") == [0.0, 1.0, 1.0]
    assert values("y / a") == [2.0, 2.0]
