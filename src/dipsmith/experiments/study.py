"""Reading a study file: what is varied, on which rows, how often, and what is measured.

A study is a YAML file. It names the rows (a simulated example, or a file), the methods with the parameters that are
varied, the number of repeats, and metrics and analyses by name. Nothing in it is code. Whatever is wrong with a file is
told in one line with the place in the file and the remedy, before anything is run.
"""

from __future__ import annotations

from pathlib import Path

from dipsmith.errors import InputError, SchemaError
from dipsmith.experiments.entries import StudyEntry
from dipsmith.methods.catalogue import METHODS
from dipsmith.schema.explain import Problem, check
from dipsmith.schema.markup import Document, in_file, read_text

MAX_CHARACTERS = 1_000_000

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
    """Read a study file, or say in one line what is wrong: the file, the line, the field and what to do."""
    return parse(text_of(path), Path(path).name)


def text_of(path: str | Path) -> str:
    """The text of a study file."""
    try:
        return read_text(Path(path), "study", MAX_CHARACTERS)
    except SchemaError:
        raise InputError(f"study '{path}' cannot be read; give the path of a YAML file") from None


def parse(text: str, name: str = "study") -> StudyEntry:
    """A study from its text; see `read`."""
    try:
        document = Document.of(text, typed=True, limit=MAX_CHARACTERS)
    except SchemaError as error:
        raise InputError(in_file(name, str(error))) from None
    if not isinstance(document.data, dict):
        raise InputError(
            f"{name}: a study is a mapping of keys (name, question, data, methods, …), got something else"
        )
    found = check(StudyEntry, document.data, _NEEDED, {})
    if isinstance(found, Problem):
        field = "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in found.place).lstrip(".")
        where = f"line {document.line(found.place)}: {field}: " if field else ""
        what = {"unknown": "unknown key; ", "missing": "missing; ", "value": ""}[found.kind]
        raise InputError(in_file(name, where + what + found.remedy))
    return found
