"""No room above `methods/` knows a method by name: a new one touches its own folder and one line of the registry."""

import ast
from pathlib import Path

import dipsmith
from dipsmith.methods.catalogue import METHODS

PACKAGE = Path(dipsmith.__file__).parent
BELOW = {"schema", "examples", "sources", "codec", "counting", "privacy", "estimation", "regression"}
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
ABOVE = sorted(ROOMS - BELOW - {"methods"})
FAMILIES = ("forest", "graph", "hierarchy", "loglinear")
HOMONYMS = {
    # a random forest that tells synthetic rows from authentic ones
    ("utility", "forest"),
    # a key of comparison.json and its chapter: how far off the marginal tables are
    ("utility", "marginals"),
    ("utility", "Marginals"),
    # keys of JSON: the questions of a plan, the tables of one report
    ("planning", "steps"),
    ("cli", "steps"),
    ("studio", "steps"),
    # by which steps a weight is rounded
    ("analyses", "steps"),
}
CLASSES = {METHODS[name].__name__ for name in METHODS}


def test_every_room_is_below_or_above():
    """A room that is new counts as one above until somebody lists it below; report/ may know no method either."""
    assert BELOW | {"methods"} < ROOMS
    assert {"analyses", "planning", "synthesis", "confirm", "cli", "studio", "report"} <= set(ABOVE)


def modules():
    for room in ABOVE:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield room, path, ast.parse(path.read_text("utf-8"))


def test_no_room_above_imports_a_family():
    found = []
    for _, path, tree in modules():
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [
                f"{path.relative_to(PACKAGE)}:{node.lineno} imports {name}"
                for name in names
                if name.startswith(tuple(f"dipsmith.methods.{family}" for family in FAMILIES))
            ]
    assert found == []


def test_no_room_above_says_a_methods_name():
    found = []
    for room, path, tree in modules():
        for node in ast.walk(tree):
            word = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
            word = node.id if isinstance(node, ast.Name) and node.id in CLASSES else word
            if (word in CLASSES or word in set(METHODS)) and (room, word) not in HOMONYMS:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} says {word}")
    assert found == []


def test_no_text_of_a_plan_is_parsed():
    """A plan's words are for people: nobody above splits them or asks how they begin."""
    words = {"what", "note", "stage", "reason"}
    found = []
    for _, path, tree in modules():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("startswith", "endswith", "split", "rsplit", "partition", "removeprefix")
                and isinstance(node.func.value, ast.Attribute)
                and node.func.value.attr in words
            ):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []


def test_one_name_has_one_meaning():
    """No two public classes of the package share a name."""
    homes = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
