"""YAML text ↔ plain data: the one strict reader of schema files, study files and settings.

In a schema file every scalar is the text that is written: ``0000`` stays ``0000``, ``no`` stays ``no``, and
``2011-12-31`` is interpreted by the column that it belongs to, not by YAML. Elsewhere (`typed`) YAML decides what is a
number. Refused everywhere: a key given twice, anchors and aliases, tags, several documents, deep nesting. The reader works
on the parser's events with its own stack, so that hostile nesting cannot exhaust the interpreter's.

What is wrong with the data of a file is told as the first problem that pydantic finds, its place and its remedy. Schema
files and study files word the place differently (a column's name, a line); what is wrong and what to do about it is
decided here for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from dipsmith.errors import SchemaError

MAX_CHARACTERS = 64_000_000
MAX_DEPTH = 20
LONGEST_MESSAGE = 500

Place = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""

NamedFile = tuple[str, str]
"""A file as it is named, and the SHA-256 of the bytes that were read."""

_noted: ContextVar[list[NamedFile] | None] = ContextVar("files that are read for a schema", default=None)


class Line(dict[str, object]):
    """A mapping that is written on one line."""


@dataclass(frozen=True)
class Document:
    """What a YAML text holds, with line and character of every key and of every list or mapping in a list."""

    data: Any
    marks: Mapping[Place, tuple[int, int]]

    @classmethod
    def of(cls, text: str, *, typed: bool = False, limit: int = MAX_CHARACTERS) -> Document:
        """Read one YAML document; every problem is a `SchemaError` of one line."""
        if len(text) > limit:
            remedy = "shorten it (long lists of values go into a code-list csv file)"
            raise SchemaError(f"more than {limit:,} characters; {remedy}")
        try:
            return _build(yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)), typed)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{_spot(mark)}: " if mark is not None else ""
            problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable text"
            what = f"{place}not valid YAML ({' '.join(str(problem).split())})"
            raise SchemaError(f"{what}; check indentation, colons and quotes") from None

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest one above it that is in the text."""
        return self._mark(place)[0]

    def spot(self, place: Place) -> str:
        """Line and character of a place, or of the nearest one above it that is in the text."""
        return "line {}, character {}".format(*self._mark(place))

    def _mark(self, place: Place) -> tuple[int, int]:
        above = (place[:k] for k in range(len(place), 0, -1))
        return next((self.marks[p] for p in above if p in self.marks), (1, 1))


def parse(text: str, *, typed: bool = False) -> Any:
    """Read one YAML document; scalars are text unless `typed`, empty ones (and ``~``, ``null``) None.

    >>> parse("{name: a, enum: [no, 0000], title: }")
    {'name': 'a', 'enum': ['no', '0000'], 'title': None}
    >>> parse("[no, 10, a]", typed=True)
    [False, 10, 'a']
    """
    return Document.of(text, typed=typed).data


def _spot(mark: Any) -> str:
    """Where a mark of the parser stands, in words: not "column", which is one of the table."""
    return f"line {mark.line + 1}, character {mark.column + 1}"


def _build(events: Any, typed: bool) -> Document:
    """Assemble the document with a stack of open collections: each with its place and its key without a value yet."""
    root: list[Any] = []
    stack: list[tuple[Any, Place, list[str]]] = [(root, (), [])]
    marks: dict[Place, tuple[int, int]] = {}
    documents = 0
    loader = yaml.SafeLoader("")

    def put(value: object) -> Place:
        target, place, pending = stack[-1]
        if isinstance(target, list):
            target.append(value)
            return (*place, len(target) - 1) if target is not root else ()
        key = pending.pop()
        target[key] = value
        return (*place, key)

    for event in events:
        mark, spot = (event.start_mark.line + 1, event.start_mark.column + 1), _spot(event.start_mark)
        target, place, pending = stack[-1]
        awaits_key = isinstance(target, dict) and not pending
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise SchemaError(f"{spot}: a second document begins; a file holds one")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SchemaError(
                f"{spot}: anchors and aliases (& and *) are not supported; write the value out or quote it"
            )
        elif getattr(event, "tag", None):
            raise SchemaError(f"{spot}: tags ({event.tag}) are not supported; remove it or quote the text")
        elif isinstance(event, yaml.ScalarEvent):
            empty = event.implicit[0] and event.value in ("", "~", "null")
            if not awaits_key:
                put(None if empty else _read_typed(loader, event) if typed else event.value)
            elif empty:
                raise SchemaError(f"{spot}: a key must be plain text; quote it")
            elif event.value in target:
                raise SchemaError(f"{spot}: '{event.value}' is given twice; keep one of them")
            else:
                pending.append(event.value)
                marks[*place, event.value] = mark
        elif isinstance(event, yaml.CollectionStartEvent):
            if awaits_key:
                raise SchemaError(f"{spot}: a key must be plain text; quote it")
            if len(stack) > MAX_DEPTH:
                raise SchemaError(f"{spot}: nested more than {MAX_DEPTH} deep; no file needs that")
            made: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            at = put(made)
            marks.setdefault(at, mark)
            stack.append((made, at, []))
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
    return Document(root[0] if root else None, marks)


def _read_typed(loader: Any, event: Any) -> object:
    """A scalar as YAML 1.1 understands it: a number, a truth value, a date or text."""
    try:
        tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        return loader.construct_object(yaml.ScalarNode(tag, event.value))
    except ValueError:
        raise SchemaError(
            f"{_spot(event.start_mark)}: '{event.value}' is not a date or number that exists; correct or quote it"
        ) from None


def read_text(path: Path, what: str, limit: int) -> str:
    """The text of a public file, or one line saying why it cannot be read."""
    try:
        with path.open("rb") as file:
            # Not by its size: a device has none, and never ends.
            content = file.read(limit + 1)
        if (noted := _noted.get()) is not None:
            noted.append((str(path), sha256(content).hexdigest()))
        if len(content) > limit:
            raise SchemaError(f"{path}: this {what} is larger than {limit // 1_000_000} MB")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise SchemaError(f"{path}: this {what} does not exist; check the path") from None
    except IsADirectoryError:
        raise SchemaError(f"{path}: expected a {what}, got a folder") from None
    except OSError as error:
        raise SchemaError(f"{path}: this {what} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{path}: this {what} is not UTF-8 text; save it as UTF-8") from None


@contextmanager
def noting_files() -> Iterator[list[NamedFile]]:
    """Note every file that `read_text` reads meanwhile; whoever notes around this one notes them too."""
    found, around = list[NamedFile](), _noted.get()
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)
        if around is not None:
            around.extend(found)


def in_file(name: object, message: str) -> str:
    """A message with its file in front; a name or value of any length in it stays readable.

    >>> in_file("study.yaml", "line 3: question: missing")
    'study.yaml, line 3: question: missing'
    >>> len(in_file("s", f"'{'A' * 500}' is no date; {'write it as year-month-day ' * 50}"))
    504
    """
    words = re.sub(r"\S{81,}", lambda word: f"{word[0][:60]}…", message)
    short = words if len(words) <= LONGEST_MESSAGE else f"{words[:LONGEST_MESSAGE]}…"
    return f"{name}{', ' if short.startswith('line ') else ': '}{short}"


_BASE_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE_DUMPER):  # type: ignore[misc]
    """Writes `Line` mappings in flow style and everything else as blocks."""


_Dumper.add_representer(
    Line, lambda dumper, line: dumper.represent_mapping("tag:yaml.org,2002:map", dict(line), flow_style=True)
)


def _quotes(text: str) -> str | None:
    """'08' is text to this reader and a number to others: codes are quoted alike. A line break is escaped."""
    return "'" if text.isdecimal() else '"' if len(f"{text}.".splitlines()) > 1 else None


_Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_quotes(text))
)


def render(document: Mapping[str, object]) -> str:
    """Write plain data as YAML, keys in the given order."""
    return str(yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))


def render_wide(value: object) -> str:
    """Write plain data as YAML without wrapping a line."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 30))


Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong: an unknown or missing key (the place's last), or a value that cannot be used."""

    place: Place
    kind: Literal["unknown", "missing", "value"]
    got: str
    remedy: str


def check(
    model: type[Model], data: Mapping[str, Any], needed: Mapping[str, str], advice: Mapping[str, str]
) -> Model | Problem:
    """Check the keys and types of a file.

    `needed` says what to write for a key that is missing, `advice` what to write instead of an unknown one.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # An unknown key explains most, often also what is missing; a rule of ours explains more than a type.
        kinds = ("extra_forbidden", "value_error")
        first = min(
            error.errors(include_url=False), key=lambda e: kinds.index(e["type"]) if e["type"] in kinds else len(kinds)
        )
    place, kind, got = _place(first, data), first["type"], abbreviate(first["input"])
    key = str(place[-1]) if place else ""
    if kind == "extra_forbidden":
        return Problem(place, "unknown", got, advice.get(key) or _known_keys(model, place))
    if kind == "missing":
        return Problem(place, "missing", got, needed.get(key, "add it"))
    if kind == "value_error":
        return Problem(place, "value", got, first["msg"].removeprefix("Value error, "))
    wanted = first["msg"].removeprefix("Input should be ").removeprefix("a valid ").split(", unable")[0]
    if kind in ("model_type", "dict_type"):
        wanted = "a mapping of keys to values"
    return Problem(place, "value", got, f"must be {wanted}, got {got}")


def _place(error: Any, data: Any) -> Place:
    """The place as the file has it: pydantic also names branches of unions, which nobody wrote."""
    place: list[str | int] = []
    for part in error["loc"]:
        if part in data if isinstance(data, Mapping) else isinstance(data, list) and isinstance(part, int):
            place.append(part)
            data = data[part]
    return (*place, error["loc"][-1]) if error["type"] == "missing" else tuple(place)


def _known_keys(model: type[BaseModel], place: Place) -> str:
    """What to write instead of the unknown key at the end of a place."""
    for part in place[:-1]:
        field = next((f for n, f in model.model_fields.items() if part == (f.alias or n)), None)
        model = (None if field is None else _model_in(field.annotation)) or model
    known = [f.alias or name for name, f in model.model_fields.items()]
    close = get_close_matches(str(place[-1]), known, 1, 0.6)
    return f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(known)}"


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a)) is not None), None)


def abbreviate(value: object) -> str:
    """A value as messages quote it, in at most 60 characters."""
    if value is None or isinstance(value, (Mapping, list)):
        return "nothing" if value is None else "a mapping" if isinstance(value, Mapping) else "a list"
    text = " ".join(str(value).split())
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
