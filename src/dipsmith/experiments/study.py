"""Reading a study file: what is varied, on which rows, how often, and what is measured.

A study is a YAML file. It names the rows (a simulated example, or a file), the methods with the parameters that are
varied, the number of repeats, and metrics and analyses by name. Nothing in it is code. Whatever is wrong with a file is
told in one line with the place in the file and the remedy, before anything is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dipsmith.errors import InputError
from dipsmith.experiments.entries import (
    AnalysisEntry,
    ClaimEntry,
    DataEntry,
    DesignEntry,
    Entry,
    FigureEntry,
    MethodEntry,
    StudyEntry,
)
from dipsmith.experiments.ranges import RangeEntry
from dipsmith.methods.catalogue import METHODS

_NEEDED = {
    "name": "a short name, as in a file name",
    "question": "one sentence that says what the study answers",
    "data": "which rows: 'data: {example: personnel, rows: 5000}'",
    "methods": "a list: 'methods: [{method: forest, vary: {n_b: [25, 500]}}]'",
    "method": f"one of {', '.join(METHODS)}",
    "formula": "e.g. 'log(pay) ~ sex + race + age | agency'",
    "metric": "the name of a metric or analysis of this study",
    "says": "the sentence that the results may refute",
}


def read(path: str | Path) -> StudyEntry:
    """Read a study file.

    Raises
    ------
    InputError
        One line: the file, the line, the field, what is wrong and what to do.
    """
    place = Path(path)
    try:
        text = place.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"study '{path}' cannot be read; give the path of a YAML file") from None
    return parse(text, place.name)


MOST_CHARACTERS, DEEPEST, LONGEST = 1_000_000, 20, 600


def shortened(message: str) -> str:
    """A message that quotes something very long, with its middle left out."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"


def _refuse_bombs(text: str, loader: Any, name: str) -> None:
    """Refuse what grows when it is read: aliases that stand for one another, nesting without end."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{name}: {len(text):,} characters are more than any study needs; shorten it")
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{name}, line {line}: aliases (*) are not supported; write the value out")
        if depth > DEEPEST:
            raise InputError(f"{name}, line {line}: nested more than {DEEPEST} deep; no study needs that")


def parse(text: str, name: str = "study") -> StudyEntry:
    """A study from its text; see `read`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_bombs(text, loader, name)
        tree = yaml.compose(text, Loader=loader)
        _refuse_twice(tree, name)
        data = yaml.load(text, Loader=loader)  # noqa: S506 — the safe loader, written in C
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = " ".join(str(getattr(error, "problem", None) or "unreadable text").split())
        raise InputError(
            f"{name}{line}: not valid YAML ({problem}); check indentation, colons and quotes"
        ) from None
    except (ValueError, TypeError):
        raise InputError(
            f"{name}: a date that does not exist, or a list or mapping in place of a key; correct or quote it"
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            f"{name}: a study is a mapping of keys (name, question, data, methods, …), got something else"
        )
    try:
        return StudyEntry.model_validate(data)
    except ValidationError as error:
        # A key that is not known explains most; of a union, the branch that was meant explains more than the others.
        kinds = ("extra_forbidden", "value_error")
        first = min(
            error.errors(include_url=False),
            key=lambda e: kinds.index(e["type"]) if e["type"] in kinds else len(kinds),
        )
        raise InputError(shortened(_explain(first, tree, name))) from None


def _refuse_twice(node: Any, name: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise InputError(
                    f"{name}, line {key.start_mark.line + 1}: '{key.value}' is given twice; keep one of them"
                )
            seen.add(key.value)
            _refuse_twice(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_twice(item, name)


def _explain(error: Any, tree: Any, name: str) -> str:
    path = [p for p in error["loc"] if not _is_branch(p)]
    line, known = _line_of(tree, path)
    field = "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    where = f"{name}, line {line}: {field}: " if field else f"{name}: "
    kind = error["type"]
    if kind == "extra_forbidden":
        close = get_close_matches(str(path[-1]), known, 1, 0.6)
        wanted = _keys_at(path)
        close = close or get_close_matches(str(path[-1]), wanted, 1, 0.6)
        return f"{where}unknown key; " + (
            f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(wanted)}"
        )
    if kind == "missing":
        return f"{where}missing; {_NEEDED.get(str(path[-1]), 'add it')}"
    if kind == "value_error":
        return where + str(error["msg"]).removeprefix("Value error, ")
    wanted_type = error["msg"].removeprefix("Input should be ").removeprefix("a valid ").split(", unable")[0]
    return f"{where}must be {wanted_type}, got {_short(error['input'])}"


def _is_branch(part: Any) -> bool:
    """Pydantic names the branch of a union in the path; a reader of the file has not written it."""
    return isinstance(part, str) and (
        part in ("<list>", "<names>", "<range>")
        or part in ("DesignEntry", "list[any]", "dict[str,any]", "literal['full']")
        or part.startswith(("function-", "list[", "dict[", "literal["))
    )


def _keys_at(path: Sequence[Any]) -> list[str]:
    model: Any = StudyEntry
    homes: Mapping[str, type[Entry]] = {
        "data": DataEntry,
        "methods": MethodEntry,
        "analyses": AnalysisEntry,
        "figures": FigureEntry,
        "design": DesignEntry,
        "claims": ClaimEntry,
    }
    for part in path[:-1]:
        model = homes.get(str(part), model)
    if len(path) > 2 and path[-3] == "vary":
        model = RangeEntry
    return [f.alias or n for n, f in model.model_fields.items()]


def _line_of(tree: Any, path: Sequence[Any]) -> tuple[int, list[str]]:
    """The line of a place in the file (or of the nearest place that exists), and the keys beside it."""
    node, line, known = tree, 1, []
    for part in path:
        found = next(_children(node, part), None)
        known = [k.value for k, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        if found is None:
            break
        line, node = found
    return line, [k for k in known if path and k != path[-1]]


def _children(node: Any, part: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                yield key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        yield node.value[part].start_mark.line + 1, node.value[part]


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = " ".join(str(value).split())
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
