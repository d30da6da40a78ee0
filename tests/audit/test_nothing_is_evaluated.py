"""Text is data: no file of the package runs, compiles or unpickles any, or hands it to a library that would."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "dipsmith"
FILES = sorted(PACKAGE.rglob("*.py"))

RUNS = {"eval", "exec", "compile", "__import__", "execfile", "breakpoint"}
METHODS = {
    "eval",
    "query",
    "from_formula",
    "from_string",
    "literal_eval",
    "import_string",
    "run_path",
    "run_module",
}
MODULES = {
    *("formulaic", "patsy", "statsmodels.formula", "pyfixest.estimation", "numexpr", "sympy"),
    *(
        "pickle",
        "cPickle",
        "dill",
        "cloudpickle",
        "joblib",
        "marshal",
        "shelve",
        "code",
        "codeop",
        "runpy",
        "imp",
    ),
}
LOADERS = {"safe_load", "parse", "compose", "SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"}
DYNAMIC = {"__init__.py", "extend.py", "regression/model_frame.py"}
"""Modules are imported by name here only: from tables of our own names, and by the names of two libraries."""
TYPES = {"sources/duckdb.py": ".from_string()"}
"""What reads the name of a column's type, by the parser of a library for types."""


def problems(text, file=""):
    """What in a file would run text."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in RUNS:
            found.append(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            call = f".{node.func.attr}()"
            found += [] if TYPES.get(file) == call else [call]
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if _forbidden(a.name)]
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [f"{node.module}.{a.name}" for a in node.names if _forbidden(node.module, a.name)]
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("extra", "import_module"):
            found += [str(a.value) for a in node.args if isinstance(a, ast.Constant) and _forbidden(str(a.value))]
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found += [] if ast.unparse(node.value) == "False" else ["allow_pickle"]
        if isinstance(node, ast.keyword) and node.arg in ("usetex", "shell"):
            found += [] if ast.unparse(node.value) == "False" else [node.arg]
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml" and "oad" in node.attr:
            # `yaml.load` itself is allowed with a safe loader, which must then be named in the same file.
            safe = node.attr in LOADERS or (node.attr == "load" and "Loader=loader" in text and "SafeLoader" in text)
            found += [] if safe else [f"yaml.{node.attr}"]
        if isinstance(node, ast.Name) and node.id == "import_module" and file not in DYNAMIC:
            found.append("import_module")
    return found


def _forbidden(module, name=""):
    whole = f"{module}.{name}" if name else module
    return any(whole == m or whole.startswith(f"{m}.") for m in MODULES)


def test_no_file_runs_text():
    names = {file.relative_to(PACKAGE).as_posix(): file for file in FILES}
    found = {name: problems(file.read_text("utf-8"), name) for name, file in names.items()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text",
    [
        "eval(text)",
        "run = exec",
        "frame.eval(text)",
        "frame.query(text)",
        "import formulaic",
        "from statsmodels.formula import api",
        "from statsmodels import formula",
        "extra('formulaic')",
        "extra('formulaic.parser')",
        "smf.ols.from_formula(text, frame)",
        "np.load(file, allow_pickle=True)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "yaml.full_load(text)",
        "import_module(text)",
        "environment.from_string(text)",
        "import pickle",
    ],
)
def test_the_search_finds_what_it_looks_for(text):
    assert problems(text)


def test_libraries_are_imported_by_names_that_stand_in_the_code():
    called = [
        node.args[0]
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "extra"
    ]
    assert called
    assert {ast.literal_eval(name).partition(".")[0] for name in called} <= {"pyfixest", "pandas"}
