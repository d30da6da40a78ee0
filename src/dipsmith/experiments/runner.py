"""Running a study on all cores, so that it can be killed at any moment and goes on where it stopped.

Each finished run is one line of the journal, written and synced before the next is handed out; a run that is under way
when the machine stops is done again (or, on private rows that were read, refused and reported: it is charged and never
draws twice). Workers are separate processes that wait on a pipe: when the parent is gone, even by kill -9, the pipe
closes and they end.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean

from dipsmith.errors import DamageError, OutputError
from dipsmith.experiments.study import StudyEntry, parse
from dipsmith.experiments.trial import Laboratory, Outcome, StudyRun
from dipsmith.processes import safe_children
from dipsmith.synthesis.writing import replaced_file

JOURNAL = "runs.jsonl"
STUDY = "study.yaml"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Standing:
    """How far a study is: runs done (of them found in the journal), in all, failed, and seconds left.

    The seconds are None while they are not known, and always where rows are private: how long a run takes depends on them.
    """

    done: int
    from_journal: int
    total: int
    failed: int
    seconds_left: float | None


Progress = Callable[[Standing], None]


def run(laboratory: Laboratory, text: str, jobs: int | None = None, progress: Progress | None = None) -> list[Outcome]:
    """Run a study, or the rest of it, by so many processes (one per core); `progress` is called after every run.

    Privacy
    -------
    On private rows every run is charged to the ledger that the file names, before a value is read.
    """
    _prepare(laboratory.out, laboratory.study, text)
    with _journal(laboratory.out) as (journal, add):
        wanted = {r.id for r in laboratory.runs}
        # What failed is tried again: a full disk may be empty by now, and a refusal costs nothing.
        done = {o.id: o for o in journal if o.id in wanted and not o.failed}
        left = [r for r in laboratory.runs if r.id not in done]
        started, before = time.monotonic(), set(done)

        def tell() -> None:
            if progress is not None:
                failed = sum(1 for o in done.values() if o.failed)
                timed = len(done) > len(before) and laboratory.cost is None
                seconds = _seconds_left(laboratory.runs, done, before, started) if timed else None
                progress(Standing(len(done), len(before), len(laboratory.runs), failed, seconds))

        tell()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        for outcome in _outcomes(laboratory, left, min(jobs or cores, len(left))):
            add(outcome)
            done[outcome.id] = outcome
            tell()
    return [done[r.id] for r in laboratory.runs]


def outcomes(out: Path) -> list[Outcome]:
    """What the journal of a folder holds."""
    path = out / JOURNAL
    return _lines(path.read_bytes())[0] if path.exists() else []


def _prepare(out: Path, study: StudyEntry, text: str) -> None:
    kept = out / STUDY
    if kept.exists():
        before = parse(kept.read_text("utf-8"), str(kept))
        if before.name != study.name:
            raise OutputError(
                f"'{out}' holds the results of study '{before.name}', not '{study.name}'; choose another folder with --out"
            )
    elif out.exists() and any(out.iterdir()):
        raise OutputError(f"'{out}' exists and holds no study; choose another folder with --out")
    out.mkdir(0o700 if study.data.private else 0o777, parents=True, exist_ok=True)
    with replaced_file(kept) as work:
        work.write_text(text, "utf-8")


@contextmanager
def _journal(out: Path) -> Iterator[tuple[list[Outcome], Callable[[Outcome], None]]]:
    """The outcomes in a folder's journal, and what adds one: a line, on the disk before anything else happens."""
    path = out / JOURNAL
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        _lock(handle, out)
        found, whole = _lines(path.read_bytes())
        # A line that a kill cut short is no outcome; it must not join the next one.
        os.ftruncate(handle, whole)

        def add(outcome: Outcome) -> None:
            line = json.dumps(outcome.to_dict(), ensure_ascii=False, separators=(",", ":")) + "\n"
            os.write(handle, line.encode())
            os.fsync(handle)

        yield found, add
    finally:
        os.close(handle)


def _lines(text: bytes) -> tuple[list[Outcome], int]:
    """The outcomes, and how many bytes of whole lines there are."""
    whole = text.rfind(b"\n") + 1
    found = []
    for number, line in enumerate(text[:whole].splitlines(), start=1):
        try:
            found.append(Outcome.from_dict(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            raise DamageError(
                f"{JOURNAL}, line {number} is no run of a study; remove the line to do its run again"
            ) from None
    return found, whole


def _lock(handle: int, out: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two runs in one folder are then the user's to avoid
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OutputError(f"'{out}' is being written by another run; wait for it, or choose --out") from None


def _outcomes(laboratory: Laboratory, left: list[StudyRun], workers: int) -> Iterator[Outcome]:
    if workers <= 1:
        yield from (laboratory.run(r) for r in left)
        return
    waiting = {r.id for r in left}
    queue = iter(i for i, r in enumerate(laboratory.runs) if r.id in waiting)
    context = get_context("spawn")
    pipes: list[Connection] = []
    processes = []
    # Workers are as many as cores already; libraries that start threads of their own would only quarrel.
    with safe_children(dict.fromkeys(THREADS, "1")):
        for _ in range(workers):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, laboratory), daemon=True)
            process.start()
            there.close()
            pipes.append(here)
            processes.append(process)

    def hand(pipe: Connection) -> bool:
        number = next(queue, None)
        if number is not None:
            pipe.send_bytes(json.dumps(number).encode())
        return number is not None

    try:
        busy = [p for p in pipes if hand(p)]
        while busy:
            for pipe in wait(busy):
                assert isinstance(pipe, Connection)
                try:
                    yield Outcome.from_dict(json.loads(pipe.recv_bytes()))
                except EOFError:
                    raise MemoryError("a worker ended without an answer") from None
                if not hand(pipe):
                    busy.remove(pipe)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()


def _work(pipe: Connection, laboratory: Laboratory) -> None:
    """Do runs as they come until the pipe closes."""
    with suppress(EOFError, OSError):
        while True:
            number = json.loads(pipe.recv_bytes())
            outcome = laboratory.run(laboratory.runs[number])
            pipe.send_bytes(json.dumps(outcome.to_dict()).encode())


def _seconds_left(runs: list[StudyRun], done: Mapping[str, Outcome], before: set[str], started: float) -> float:
    """How long it will take still: each method's mean time so far, at the pace of this machine at this hour."""
    times: dict[str, list[float]] = {}
    for r in runs:
        if r.id in done:
            times.setdefault(r.setting.name, []).append(done[r.id].seconds)
    usual = fmean([s for method in times.values() for s in method])
    waiting = sum(fmean(times.get(r.setting.name, [usual])) for r in runs if r.id not in done)
    worked = sum(o.seconds for o in done.values() if o.id not in before)
    return waiting * (time.monotonic() - started) / worked if worked else waiting
