"""The worker: one job in one process, from the moment it may still be cancelled to the release.

``python -m dipsmith.studio.worker JOB-FOLDER SECONDS-TO-WAIT``. It calls what the command line calls; what it may know of
private rows it passes on to nobody: its notes hold stage and share.
"""

from __future__ import annotations

import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dipsmith.errors import BudgetError, DipsmithError
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema, Unit
from dipsmith.sources import Progress, Source, source
from dipsmith.sources.fingerprint import fingerprint, fingerprints
from dipsmith.sources.header import check_header
from dipsmith.studio.choices import Choices
from dipsmith.studio.jobs import charge_of, write_state
from dipsmith.studio.workspace import Workspace, name_files, open_lock, write_json

EVERY = 0.15
"""Seconds between notes."""
LEARNING = {
    "forms": ("types and missing values", 0.0),
    "magnitudes": ("bounds", 0.5),
    "grids": ("bins", 0.75),
    "levels": ("levels of text", 1.0),
}
"""What each question to the rows learns, and how much of the whole is then done."""
READING, FITTING, DRAWING = 0.05, 0.1, 0.25
"""About how long these take beside the comparison with one release."""


@dataclass(frozen=True, eq=False)
class CheckedSource:
    """A source whose syntax was checked a moment ago, so that it is not read once more for that."""

    inner: Source

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return self.inner.columns

    def check(self, required: Sequence[str]) -> None:
        """The header only."""
        check_header(self.inner.describe(), self.inner.columns, required)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows."""
        return self.inner.batches(columns, progress)

    def describe(self) -> str:
        """What it is."""
        return self.inner.describe()

    def types(self) -> dict[str, pa.DataType]:
        """The types that it states."""
        stated = getattr(self.inner, "types", None)
        return {} if stated is None else dict(stated())

    def fingerprint(self) -> str | None:
        """What tells it from others."""
        return fingerprint(self.inner)

    def fingerprints(self) -> frozenset[str]:
        """What tells it, and each file of it, from others."""
        return fingerprints(self.inner)


class Notes:
    """Tells the server how far the job is, now and then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stage, self._last = "", 0.0

    def __call__(self, stage: str, share: float) -> None:
        """Note a stage and how much of it is done."""
        now = time.monotonic()
        if stage == self._stage and now - self._last < EVERY and share < 1.0:
            return
        self._stage, self._last = stage, now
        write_state(self.folder, "running", stage, min(max(share, 0.0), 1.0))


def main(folder: Path, wait: float) -> None:
    """Do the job."""
    with open_lock(folder / "alive") as alive:
        try:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        job = json.loads((folder / "job.json").read_text("utf-8"))
        notes = Notes(folder)
        try:
            if _wait(folder, wait):
                _KINDS[job["kind"]](folder, job, notes)
        except BaseException as error:  # noqa: BLE001 — whatever ends the job is noted, by its kind alone
            _record_failure(folder, job, error)


def _wait(folder: Path, wait: float) -> bool:
    """Wait while the job may be cancelled; False if it was."""
    end = time.monotonic() + wait
    while (left := end - time.monotonic()) > 0:
        if (folder / "cancelled").exists():
            return False
        write_state(folder, "waiting", "waiting: can be cancelled", 1 - left / wait)
        time.sleep(min(0.2, left))
    return True


@contextmanager
def _door(folder: Path) -> Iterator[int | None]:
    """The lock that whoever cancels needs; None if the job was cancelled before."""
    with open_lock(folder / "door") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield None if (folder / "cancelled").exists() else door


def _through(door: int, notes: Callable[[str, float], None]) -> Callable[[str, float], None]:
    """Progress that lets the door go once data is being read: from then on the ledger refuses to cancel."""

    def show(stage: str, share: float) -> None:
        notes(stage, share)
        fcntl.flock(door, fcntl.LOCK_UN)

    return show


def _check_source(folder: Path, data: Path, schema: Schema) -> CheckedSource:
    """The confidential rows, their syntax checked while the job may still be cancelled."""
    private = source(data)
    write_state(folder, "waiting", "checking the file: can be cancelled", 0.0)
    private.check(schema.columns)
    return CheckedSource(private)


def _run(folder: Path, job: Mapping[str, Any], notes: Notes) -> None:
    from dipsmith.synthesis.synthesize import synthesize

    asked = job["asked"]
    root, ledger = Path(job["folder"]), Ledger(job["ledger"])
    schema = Schema.from_dict(asked["schema"])
    choices = Choices.of(asked["choices"])
    private = _check_source(folder, root / asked["data"], schema)
    people = None if schema.members is None else _check_source(folder, root / asked["members"], schema.members.schema)
    with _door(folder) as door:
        if door is None:
            return
        release = synthesize(
            private,
            schema,
            choices.method_for(schema, Workspace.of(root).public_file),
            budget=choices.budget,
            ledger=ledger,
            sets=choices.sets,
            each=choices.each,
            known_rows=choices.rows_for(schema),
            onto=choices.files.target(schema, Workspace.of(root).public_file),
            analyses=choices.analyses,
            members=people,
            request=job["id"],
            progress=_through(door, notes),
        )
    notes("writing", 0.0)
    if release.folder is None:
        out = Workspace.of(root).inside(asked["out"])
        out.parent.mkdir(exist_ok=True)
        release.save(out, format=choices.format)
    write_state(folder, "finished", "released", 1.0)


def _learn(folder: Path, job: Mapping[str, Any], notes: Notes) -> None:
    from dipsmith.synthesis.learn import blank_schema, divide_delta, learn_schema

    asked, ledger = job["asked"], Ledger(job["ledger"])
    root, unit, private = Path(job["folder"]), Unit(*asked["unit"]), asked["private"] or None
    data = root / asked["data"]
    blank = blank_schema(source(data), asked["name"], unit, asked["neighbours"], private, asked["skip"])
    budget, delta = divide_delta(ledger, asked["name"], asked["epsilon"], asked["delta"] or None)
    rows = _check_source(folder, data, blank)

    def told(stage: str, share: float) -> None:
        notes(*LEARNING.get(stage, (stage, share)))

    with _door(folder) as door:
        if door is None:
            return
        learn_schema(
            rows,
            budget=budget,
            delta=delta,
            neighbours=asked["neighbours"],
            unit=unit,
            name=asked["name"],
            private=private,
            skip=asked["skip"],
            ledger=ledger,
            out=Workspace.of(root).inside(asked["out"]),
            request=job["id"],
            progress=_through(door, told),
        )
    write_state(folder, "finished", "learned", 1.0)


def _confirm(folder: Path, job: Mapping[str, Any], notes: Notes) -> None:
    from dipsmith.confirm.confirm import approve
    from dipsmith.confirm.question import Inquiry

    asked = job["asked"]
    root, schema = Path(job["folder"]), Schema.from_dict(asked["schema"])
    out = Workspace.of(root).inside(asked["out"])
    private = _check_source(folder, root / asked["data"], schema)
    with _door(folder) as door:
        if door is None:
            return
        question, show = Inquiry.from_text(asked["question"]), _through(door, notes)
        approve(question, private, schema, ledger=job["ledger"], out=out, progress=show)
    write_state(folder, "finished", "answered", 1.0)


def _whole(notes: Notes, releases: int, *, fits: bool) -> Callable[[str, float], None]:
    """Progress of a whole comparison, from that of its stages: reading, one release after the other, fits, drawing."""
    weights = [READING, *[1.0] * releases, *[FITTING] * fits, DRAWING]
    begun: list[str] = []

    def show(stage: str, share: float) -> None:
        name = stage.partition(": ")[0]
        if name not in begun:
            begun.append(name)
        i = min(begun.index(name), len(weights) - 1)
        notes(stage, (sum(weights[:i]) + weights[i] * share) / sum(weights))

    return show


def _compare(folder: Path, job: Mapping[str, Any], notes: Notes) -> None:
    from dipsmith.studio import distributions
    from dipsmith.studio.fragments import fragment, without_parameters
    from dipsmith.utility.compare import compare
    from dipsmith.utility.regression import Regression

    asked = job["asked"]
    root = Path(job["folder"])
    with _door(folder) as door:
        if door is None:
            return
        # Nothing is given back here: the look is logged before the first row is read.
        write_state(folder, "running", "reading", 0.0)
    show = _whole(notes, len(asked["releases"]), fits=bool(asked["analyses"]))
    found = compare(
        root / asked["data"],
        *(root / r for r in asked["releases"]),
        ledger=job["ledger"],
        analyses=[Regression.of(a) for a in asked["analyses"]],
        classifiers=asked["classifiers"] or None,
        members=root / asked["members"] if asked.get("members") else None,
        progress=show,
    )
    show("drawing the figures", 0.0)
    out = Workspace.of(root).inside(asked["out"])
    out.parent.mkdir(mode=0o700, exist_ok=True)
    found.save(out)
    distributions.keep(found, folder)
    page = without_parameters(found.page)
    fragment(page, f"/p/{job['project']}/compare/{job['id']}/files").write(folder)
    write_state(folder, "finished", "compared", 1.0)


def _check(folder: Path, job: Mapping[str, Any], notes: Notes) -> None:
    from dipsmith.studio.check import RESULT
    from dipsmith.utility.authentic import check_rows

    asked = job["asked"]
    root, schema = Path(job["folder"]), Schema.from_dict(asked["schema"])
    private = _check_source(folder, root / asked["data"], schema)
    people = None if schema.members is None else _check_source(folder, root / asked["members"], schema.members.schema)
    with _door(folder) as door:
        if door is None:
            return
        # Nothing is given back here: the look is logged before the first row is read.
        write_state(folder, "running", "counting", 0.0)
    write_json(folder / RESULT, check_rows(private, schema, Ledger(job["ledger"]), people))
    write_state(folder, "finished", "counted", 1.0)


def _rehearse(folder: Path, job: Mapping[str, Any], notes: Notes) -> None:
    from dipsmith.studio.stand_in import RESULT, rehearse

    for found in rehearse(job["asked"], Path(job["folder"]), notes):
        write_json(folder / RESULT, found)
        if (folder / "cancelled").exists():
            return
    write_state(folder, "finished", "tried", 1.0)


_KINDS = {
    "run": _run,
    "learn": _learn,
    "confirm": _confirm,
    "compare": _compare,
    "check": _check,
    "rehearse": _rehearse,
}


def _record_failure(folder: Path, job: Mapping[str, Any], error: BaseException) -> None:
    # One line that quotes no private value.
    message = str(error) if isinstance(error, DipsmithError) else f"unexpected failure ({type(error).__name__})"
    message = name_files(message, job["folder"])
    if (charge := charge_of(job)) is not None:
        try:
            Ledger(job["ledger"]).cancel(charge)
            message += "; no data was read, so nothing was spent"
        except BudgetError:
            message += "; data had been read, so that what was spent stays spent"
        except DipsmithError as unsettled:
            message += f"; the ledger could not note it: {unsettled}"
    write_state(folder, "failed", "failed", 1.0, message)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
