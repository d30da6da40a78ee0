"""What every command shares: where text goes, how progress looks, how errors end.

Results go to standard output, progress and errors to standard error. Libraries are imported where they
are used, so that `dipsmith --help` stays quick.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from dipsmith.errors import SchemaError, UsageError

if TYPE_CHECKING:
    from dipsmith.methods.method import Method
    from dipsmith.privacy.budget import Budget
    from dipsmith.privacy.curator import Progress
    from dipsmith.schema import Schema

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
SchemaFile = Annotated[Path, typer.Option("--schema", help="The schema file (YAML).")]
LedgerFile = Annotated[Path, typer.Option("--ledger", help="The budget ledger (an SQLite file).")]
Epsilon = Annotated[str | None, typer.Option("--epsilon", help="Pure ε; with --delta the ε of (ε, δ).")]
Rho = Annotated[str | None, typer.Option("--rho", help="ρ of zero-concentrated differential privacy.")]
Delta = Annotated[
    str | None, typer.Option("--delta", help="With --epsilon: run in ρ, converted from (ε, δ).")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the method, NAME=VALUE; may be repeated.")
]

LARGEST_SETTING = 1_000_000_000
"""Whole numbers given with --set are below it; no parameter needs more, and larger ones overflow or never end."""
LEAST_WIDTH = 1e-9
"""Intervals of shares are asked to be at least so wide: no table has rows enough for less."""


_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that make a terminal do something, or show a text in another order than it is read."""


def visible(text: str) -> str:
    r"""A text of others for a terminal: what would command it is written as its number.

    >>> print(visible("a\x1b]0;title\x07"))
    a\u001b]0;title\u0007
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str) -> None:
    """A line of the result."""
    typer.echo(visible(text))


def emit(facts: Mapping[str, Any] | Sequence[Any]) -> None:
    """The result as JSON."""
    # What a stream cannot show is escaped as JSON does it.
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    typer.echo(visible(json.dumps(facts, ensure_ascii=not unicode, indent=2, default=str)))


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()
) -> None:
    """An aligned table on standard output; plain when it is not a terminal."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(
        title=visible(title),
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for i, column in enumerate(columns):
        shown.add_column(
            visible(column), justify="right" if i in right else "left", header_style="dim", overflow="fold"
        )
    for row in rows:
        shown.add_row(*(visible(str(cell)) for cell in row))
    console = Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else 120,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(shown)


def warn(text: str) -> None:
    """A line on standard error that does not stop the run."""
    typer.secho(
        f"dipsmith: note: {visible(text)}", err=True, fg=typer.colors.YELLOW if sys.stderr.isatty() else None
    )


@contextmanager
def said(kind: type[Warning]) -> Iterator[None]:
    """Warnings of a kind become notes, at the moment they come up."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, kind):
                warn(str(message))
            else:
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def budget_of(epsilon: str | None, rho: str | None, delta: str | None) -> Budget:
    """The budget that the options name."""
    from dipsmith.privacy.budget import ZCDP, PureDP

    if (epsilon is None) == (rho is None):
        raise UsageError("give either --epsilon (with --delta for (ε, δ)) or --rho")
    if rho is not None:
        if delta is not None:
            raise UsageError("--delta goes with --epsilon; --rho needs none")
        return ZCDP(rho)
    assert epsilon is not None
    return PureDP(epsilon) if delta is None else ZCDP.from_approx(epsilon, delta)


def method_of(name: str, settings: Sequence[str] | None, schema: Schema) -> Method:
    """The method that --method and --set describe; targets default to the private columns."""
    from dataclasses import fields

    from dipsmith.methods.catalogue import METHODS

    if name not in METHODS:
        raise UsageError(f"method '{name}' is unknown; choose one of: {', '.join(METHODS)}")
    made = METHODS[name]
    known = {f.name for f in fields(made)}  # type: ignore[arg-type]
    chosen: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or key not in known:
            raise UsageError(
                f"--set {setting}: expected NAME=VALUE with NAME one of: {', '.join(sorted(known))}"
            )
        chosen[key] = _setting(made, key, value)
    if "targets" in known and "targets" not in chosen and schema.neighbours == "label":
        chosen["targets"] = list(schema.private)
    try:
        return made(**chosen)
    except TypeError as error:
        raise UsageError(f"method {name}: {error}") from None


def _setting(method: type, key: str, text: str) -> Any:
    """The value of one --set, of the type that the parameter has: a method would find out only after the charge."""
    from typing import get_args, get_type_hints

    from pydantic import ConfigDict, TypeAdapter, ValidationError

    from dipsmith.schema.markup import parse

    try:
        value = parse(text, typed=True)
    except SchemaError:
        raise UsageError(
            f"--set {key}: the value is not readable; write it as in YAML, e.g. {key}=[a, b]"
        ) from None
    wanted = get_type_hints(method)[key]
    rule = ConfigDict(coerce_numbers_to_str=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    adapter: TypeAdapter[Any] = TypeAdapter(wanted, config=rule)
    tried = [value]
    if isinstance(value, str):
        names = Sequence[str] in (wanted, *get_args(wanted))
        tried.append([part.strip() for part in value.split(",")] if names else [value])
    for each in tried:
        try:
            found = adapter.validate_python(each)
        except ValidationError:
            continue
        if not (isinstance(found, int) and abs(found) >= LARGEST_SETTING):
            return found
    raise UsageError(f"--set {key}={_shortened(text)}: expected {_described(wanted)}")


def _described(wanted: Any) -> str:
    """A parameter's type in words.

    >>> _described(Sequence[str] | None)
    'a list of names, as in [a, b], or null'
    """
    from types import NoneType
    from typing import Literal, get_args, get_origin

    words = {
        int: f"a whole number below {LARGEST_SETTING:,}",
        float: "a number",
        bool: "true or false",
        str: "a name",
        NoneType: "null",
    }
    parts = get_args(wanted)
    if wanted in words:
        return words[wanted]
    if get_origin(wanted) is Literal:
        return ", ".join(str(p) for p in parts)
    if get_origin(wanted) in (Sequence, Mapping):
        inner = str(parts[-1])
        if get_origin(wanted) is Mapping:
            return "names with numbers, as in {a: 2, b: 1}"
        if parts[-1] is str:
            return "a list of names, as in [a, b]"
        return "a list of lists of names, as in [[a, b], [c]]" if "str" in inner else "a list of numbers"
    return ", or ".join(_described(p) for p in parts) or "what only Python can give; leave it out"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


@contextmanager
def progress(quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on standard error: stage and share done; nothing when it is not a terminal.

    Privacy
    -------
    No time, neither taken nor left: how long a step takes depends on the rows that it reads.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    bars = Progress(
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}
    with bars:

        def show(stage: str, share: float) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=1.0)
            bars.update(tasks[stage], completed=share)

        yield show
