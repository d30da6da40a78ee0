"""Where text goes and how progress looks: results to standard output, notes and progress to standard error.

Libraries are imported where they are used, so that `dipsmith --help` stays quick.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

if TYPE_CHECKING:
    from dipsmith.privacy.curator import Progress

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


def answer(as_json: bool, facts: Mapping[str, Any] | Sequence[Any], *lines: str) -> None:
    """The result of a command: as JSON where that was asked, else as lines for people."""
    if as_json:
        emit(facts)
    else:
        for line in lines:
            say(line)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> None:
    """An aligned table on standard output; plain when it is not a terminal."""
    from rich.console import Console
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        side: Any = "right" if i in right else "left"
        made.add_column(visible(column), justify=side, header_style="dim", overflow="fold")
    for row in rows:
        made.add_row(*(visible(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 120
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    if title:  # above the table, not in it: a narrow table would fold it
        console.print(visible(title), style="bold")
    console.print(made)


def warn(text: str) -> None:
    """A line on standard error that does not stop the run."""
    colour = typer.colors.YELLOW if sys.stderr.isatty() else None
    typer.secho(f"dipsmith: note: {visible(text)}", err=True, fg=colour)


@contextmanager
def warnings_as_notes(*kinds: type[Warning]) -> Iterator[None]:
    """Warnings of these kinds become notes, at the moment they come up."""
    with warnings.catch_warnings():
        for kind in kinds:
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
            if issubclass(category, kinds):
                warn(str(message))
            else:
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


@contextmanager
def progress(quiet: bool, *, lines: bool = False) -> Iterator[Progress | None]:
    """A progress bar on standard error: stage and share done.

    Where that is not a terminal: nothing, or, with `lines`, a line for each stage. What follows ": " in a stage is a part
    of it and shares its bar.

    Privacy
    -------
    No time, neither taken nor left: how long a step takes depends on the rows that it reads. Lines stay in logs, with the
    time at which they came: only for what is confidential as a whole.
    """
    if quiet or not sys.stderr.isatty():
        yield _Lines() if lines and not quiet else None
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
            whole = stage.partition(": ")[0]
            if whole not in tasks:
                tasks[whole] = bars.add_task(stage, total=1.0)
            bars.update(tasks[whole], completed=share, description=visible(stage))

        yield show


class _Lines:
    """Progress as lines on standard error: one where a stage begins."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, stage: str, share: float) -> None:
        if stage != self._last and (share < 1.0 or not self._last.startswith(f"{stage}: ")):
            typer.echo(f"dipsmith: {visible(stage)}", err=True)
        self._last = stage
