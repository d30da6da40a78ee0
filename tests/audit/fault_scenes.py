"""Faults in a loop: kill -9, full disks, folders that cannot be written, clocks that go back, crowds, damage.

    python tests/audit/fault_scenes.py [--kills N] [--results FILE]     (make faults)

After each fault everything must be in order: no release without a charge, no charge forgotten, no half release, and a
message of one line that says what to do. Every scene returns how often it was played; an assertion stops the loop.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

import dipsmith as ds
from dipsmith.cli.main import main as main_command
from dipsmith.errors import BudgetError, DamageError, DipsmithError, InputError, OutputError
from dipsmith.experiments.experiment import Experiment
from dipsmith.privacy import chain
from dipsmith.report import figures

EACH = ds.PureDP("0.001")
ROWS = 500


def people():
    rng = np.random.default_rng(0)
    return pa.table({"age": rng.integers(17, 91, ROWS), "sex": np.array(["F", "M"])[rng.integers(0, 2, ROWS)]})


def schema():
    return ds.Schema.from_dict(
        {
            "name": "people",
            "unit": "row",
            "neighbours": "replace",
            "fields": [
                {"name": "age", "type": "integer", "minimum": 17, "maximum": 90, "bins": {"width": 10}},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
            ],
        }
    )


def granted(folder, amount=10):
    book = ds.Ledger(folder / "budget.db")
    book.grant("people", ds.PureDP(amount))
    return book.path


def release(book, folder, request, budget=EACH):
    made = ds.synthesize(people(), schema(), ds.Flat(), budget=budget, ledger=ds.Ledger(book), request=request)
    if made.folder is None:
        made.save(folder)
    return made


def warmed(book, folder):
    """One release in this process: children then need not load anything (nor find it, as another user)."""
    release(book, folder / "warm", "warm")
    shutil.rmtree(folder / "warm")


def child(act):
    """Run in a forked process that says how it ended: nothing, or the error's class and message."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiver)
        report = None
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - reported to the scene
            report = [type(error).__name__, str(error)]
        os.write(sender, json.dumps(report).encode())
        os._exit(0)
    os.close(sender)
    return pid, receiver


def ended(pid, receiver):
    with os.fdopen(receiver) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else "killed"


def in_order(book, folder):
    """What must hold after every fault: charges are kept, and no release is without one."""
    ledger = ds.Ledger(book)
    ledger.verify()
    statement = ledger.show("people")
    runs = {run.id: run for run in statement.runs}
    assert statement.spent_units == sum(r.charge for r in runs.values() if r.state != "cancelled")
    assert statement.spent_units <= statement.granted_units
    for card in folder.glob("*/card.json"):
        said = json.loads(card.read_text())
        assert runs[said["request"]].state in ("read", "finished"), "a release without a charge"
        ds.verify(card.parent)
    return runs


def says_what_to_do(name, message, *classes):
    assert name in {c.__name__ for c in classes}, (name, message)
    assert "\n" not in message
    assert len(message) > 20


# --- scenes ---------------------------------------------------------------------------------------


def kills(folder, times, seed=0):
    """kill -9 at a random moment of a run; afterwards the same request is asked again."""
    book, chance = granted(folder), random.Random(seed)
    warmed(book, folder)
    start = time.perf_counter()
    pid, receiver = child(lambda: release(book, folder / "usual", "usual"))
    assert ended(pid, receiver) is None
    usual = time.perf_counter() - start
    states = Counter()
    for i in range(times):
        request, out = f"r{i}", folder / f"out{i}"
        pid, receiver = child(lambda out=out, request=request: release(book, out, request))
        time.sleep(chance.uniform(0, 1.3 * usual))
        os.kill(pid, signal.SIGKILL)
        ended(pid, receiver)
        runs = in_order(book, folder)
        state = runs[request].state if request in runs else "not reserved"
        states[f"{state}, {'released' if out.exists() else 'nothing released'}"] += 1
        before = ds.Ledger(book).show("people").spent_units
        try:
            release(book, out, request)
            assert state in ("not reserved", "reserved", "finished")
        except BudgetError as refusal:
            assert state == "read"
            says_what_to_do("BudgetError", str(refusal), BudgetError)
        spent = ds.Ledger(book).show("people").spent_units - before
        assert spent == (EACH.units if state == "not reserved" else 0)
        shutil.rmtree(out, ignore_errors=True)
    left = [p.name for p in folder.iterdir() if p.name.endswith(".partial") and p.is_dir()]
    return times, {**states, "partial folders left for the owner to delete": len(left)}


def full_disk(folder, times, seed=0):
    """No file may grow beyond a random size, as on a full disk: while the ledger, a table or the card is written."""
    book, chance = granted(folder), random.Random(seed)
    warmed(book, folder)
    seen = Counter()
    for i in range(times):
        limit = chance.choice([1, 100, 2_000, 9_000, 12_000, 16_384, 40_000, 100_000])

        def act(limit=limit, i=i):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            release(book, folder / f"out{i}", f"r{i}")

        found = ended(*child(act))
        if found is not None:
            says_what_to_do(*found, OutputError, InputError, DamageError)
        seen["released" if found is None else found[0]] += 1
        in_order(book, folder)
        assert not [p for p in folder.iterdir() if p.name.endswith(".partial")]
        shutil.rmtree(folder / f"out{i}", ignore_errors=True)
    return times, dict(seen)


def read_only_folder(folder, times, seed=0):
    """The folder of the release, or the ledger, cannot be written: refused, and nothing is charged."""
    book = granted(folder)
    warmed(book, folder)
    folder.chmod(0o755)
    Path(book).chmod(0o666)
    Path(f"{book}.key").chmod(0o644)
    locked = folder / "locked"
    locked.mkdir()
    seen = Counter()
    for i in range(times):
        which = "ledger" if i % 2 else "release"
        before = ds.Ledger(book).show("people").spent_units
        if which == "ledger":
            Path(book).chmod(0o444)
            folder.chmod(0o555)
        else:
            folder.chmod(0o777)
        locked.chmod(0o555)

        def act(i=i, which=which):
            if os.getuid() == 0:
                os.setuid(65534)
            if which == "release":
                from dipsmith.synthesis.writing import require_absent

                require_absent(locked / f"out{i}")  # as the command line does before anything is spent
            release(book, locked / f"out{i}", f"r{i}")

        found = ended(*child(act))
        folder.chmod(0o755)
        Path(book).chmod(0o666)
        says_what_to_do(*found, OutputError)
        assert ds.Ledger(book).show("people").spent_units == before
        seen[which] += 1
    return times, dict(seen)


def clock_goes_back(folder, times, seed=0):
    """The clock jumps by days, both ways, between and within runs: order and balances do not depend on it."""
    book, chance = granted(folder), random.Random(seed)
    real = chain.datetime
    shift = [timedelta()]

    class Jumping(real):
        @classmethod
        def now(cls, tz=None):
            shift[0] += timedelta(days=chance.uniform(-400, 300))
            return real(2026, 1, 1, tzinfo=tz) + max(shift[0], timedelta(days=-9000))

    chain.datetime = Jumping
    try:
        for i in range(times):
            release(book, folder / f"out{i}", f"r{i}")
            in_order(book, folder)
            shutil.rmtree(folder / f"out{i}")
    finally:
        chain.datetime = real
    stamps = [run.time for run in ds.Ledger(book).show("people").runs]
    return times, {"stamps out of order": sum(b < a for a, b in pairwise(stamps))}


def two_processes(folder, times, seed=0):
    """Two processes ask at once: one budget that suffices for one of them, or one request id."""
    seen = Counter()
    for i in range(times):
        place = folder / f"round{i}"
        place.mkdir()
        if i == 0:
            warmed(granted(folder), folder)
        book = granted(place, 1)
        same = i % 2 == 0
        asked = [("same" if same else f"r{k}", place / f"out{k}") for k in range(2)]
        running = [child(lambda b=book, r=r, o=o: release(b, o, r, ds.PureDP("0.6"))) for r, o in asked]
        outcomes = [ended(*each) for each in running]
        runs = in_order(book, place)
        assert len(runs) == 1
        for found in outcomes:
            if found is not None:
                says_what_to_do(*found, BudgetError)
        assert sum((o / "card.json").exists() for _, o in asked) == 1
        seen["one request id" if same else "one budget"] += 1
        shutil.rmtree(place)
    return times, dict(seen)


def corrupted_ledger(folder, times, seed=0):
    """Pages zeroed, shuffled or overwritten: found and refused, or without any effect on what is said."""
    book, chance = granted(folder), random.Random(seed)
    for i in range(6):
        release(book, folder / f"out{i}", f"r{i}")
    sound = Path(book).read_bytes()
    expected = ds.Ledger(book).show("people").as_dict()
    broken = folder / "broken.db"
    seen = Counter()
    for _ in range(times):
        held = bytearray(sound)
        page = 4096 * chance.randrange(len(held) // 4096)
        kind = chance.choice(["zeroed page", "random page", "page over page", "flipped byte", "cut"])
        if kind == "zeroed page":
            held[page : page + 4096] = bytes(4096)
        elif kind == "random page":
            held[page : page + 4096] = chance.randbytes(4096)
        elif kind == "page over page":
            other = 4096 * chance.randrange(len(held) // 4096)
            held[page : page + 4096] = held[other : other + 4096]
        elif kind == "flipped byte":
            held[chance.randrange(len(held))] ^= 1 << chance.randrange(8)
        else:
            del held[chance.randrange(1, len(held)) :]
        broken.write_bytes(held)
        try:
            ledger = ds.Ledger(broken)
            ledger.verify()
            assert ledger.show("people").as_dict() == expected, "another balance"
            seen[f"{kind}: harmless"] += 1
        except DipsmithError as refusal:
            says_what_to_do(type(refusal).__name__, str(refusal), DamageError, InputError)
            seen[f"{kind}: found"] += 1
    return times, dict(seen)


def truncated_release(folder, times, seed=0):
    """A file of a release is cut, changed, removed or added: `verify` refuses it, whichever it is."""
    book, chance = granted(folder), random.Random(seed)
    release(book, folder / "whole", "r")
    ds.verify(folder / "whole", book)
    names = sorted(p.relative_to(folder / "whole").as_posix() for p in (folder / "whole").rglob("*") if p.is_file())
    seen = Counter()
    for i in range(times):
        copy = folder / f"copy{i}"
        shutil.copytree(folder / "whole", copy)
        target = copy / chance.choice(names)
        kind = chance.choice(["cut", "changed", "removed", "added", "emptied"])
        data = bytearray(target.read_bytes())
        if kind == "cut":
            target.write_bytes(data[: chance.randrange(len(data))])
        elif kind == "changed":
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            target.write_bytes(data)
        elif kind == "removed":
            target.unlink()
        elif kind == "added":
            (copy / "more.csv").write_text("x\n")
        else:
            target.write_bytes(b"")
        try:
            ds.verify(copy, book)
        except DipsmithError as refusal:
            says_what_to_do(type(refusal).__name__, str(refusal), DamageError, InputError)
            seen[kind] += 1
        else:
            raise AssertionError(f"{target.name} was {kind}, and verify said nothing")
        shutil.rmtree(copy)
    return times, dict(seen)


STUDY = """
name: interrupted
question: Is a study the same however often it is killed?
data: {data}
vary: {{epsilon: [0.5, 2]}}
methods: [{{method: flat}}, {{method: marginals}}]
repeats: 8
seed: 4
metrics: [tvd-1]
"""
SIMULATED = "{example: regression, rows: 200}"
PRIVATE = "{file: people.csv, schema: people.yaml, ledger: budget.db}"
RUNS, COST = 32, 40


def studied(place, private):
    """A folder with a study in it, and with rows and a ledger that suffices for it where they are private."""
    place.mkdir()
    (place / "study.yaml").write_text(STUDY.format(data=PRIVATE if private else SIMULATED))
    if private:
        csv.write_csv(people(), place / "people.csv")
        schema().write(place / "people.yaml")
        granted(place, COST)
    return place


def experiment(place):
    """`dipsmith experiment run`, as typed."""
    os.chdir(place)
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        sys.argv = ["dipsmith", "experiment", "run", "study.yaml", "--out", "out", "--jobs", "1"]
        try:
            main_command()
        except SystemExit as stopped:
            if stopped.code:
                raise


def journal(place):
    """The runs of a study that are on the disk, by line."""
    path = place / "out" / "runs.jsonl"
    whole = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()]


def interrupted_experiment(folder, times, seed=0):
    """kill -9 while a study runs, again and again until it is done: nothing lost, nothing repeated, the same results."""
    drawable, figures.available = (
        figures.available,
        lambda: False,
    )  # the report comes last, and is written whole or not
    try:
        return _interrupted(folder, times, seed)
    finally:
        figures.available = drawable


def _interrupted(folder, times, seed):
    chance = random.Random(seed)
    # Once here, so that children need not load what a study uses; once more to see how long it takes.
    Experiment.read(studied(folder / "warm", private=False) / "study.yaml", folder / "warm" / "out").run(1)
    expected = studied(folder / "whole", private=False)
    start = time.perf_counter()
    assert ended(*child(lambda: experiment(expected))) is None
    usual = time.perf_counter() - start
    measured = {run["id"]: run["rows"] for run in journal(expected)}
    assert len(measured) == RUNS
    seen, killed, number = Counter(), 0, 0
    while killed < times:
        private = number % 2 == 1
        place = studied(folder / f"study{number}", private)
        number += 1
        done = False
        while not done:
            before = journal(place)
            pid, receiver = child(lambda place=place: experiment(place))
            if killed < times:
                time.sleep(chance.uniform(0, usual))
                os.kill(pid, signal.SIGKILL)
            outcome = ended(pid, receiver)
            assert outcome in (None, "killed"), outcome
            killed += outcome == "killed"
            done = outcome is None
            now = journal(place)
            assert now[: len(before)] == before, "a finished run was lost"
            seen["runs kept over a kill"] += len(now) if outcome == "killed" else 0
            if private:
                in_order(place / "budget.db", place / "out" / "releases")
        seen["studies finished"] += 1
        _same_study(place, private, measured, seen)
        shutil.rmtree(place)
    return killed, dict(seen)


def _same_study(place, private, measured, seen):
    """What a study must hold in the end, however often it was killed."""
    found = {run["id"]: run for run in journal(place)}
    well = [run["id"] for run in journal(place) if not run["failed"]]
    assert len(well) == len(set(well)), "a run was repeated"
    assert len(found) == RUNS
    assert (place / "out" / "results.parquet").exists()
    if not private:
        assert {key: run["rows"] for key, run in found.items()} == measured, "other results"
        return
    # A run that had read rows when it was killed is paid for once, is told, and never draws again.
    lost = [run for run in found.values() if run["failed"]]
    assert all("never draws again" in run["failed"] for run in lost)
    assert ds.Ledger(place / "budget.db").show("people").spent == COST
    seen["private runs that were killed after reading: charged once, told, not repeated"] += len(lost)


SCENES = {
    "kill -9": kills,
    "full disk": full_disk,
    "read-only folder": read_only_folder,
    "clock goes back": clock_goes_back,
    "two processes on one ledger": two_processes,
    "corrupted ledger": corrupted_ledger,
    "truncated release": truncated_release,
    "interrupted experiment": interrupted_experiment,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--others", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--results", type=Path, help="counts are added to this file")
    asked = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    for name, scene in SCENES.items():
        if asked.only not in name:
            continue
        times = asked.kills if scene is kills else asked.others
        folder = Path(tempfile.mkdtemp(dir=memory))
        try:
            played, details = scene(folder, times, asked.seed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: {played} times; {', '.join(f'{n} {what}' for what, n in details.items())}", flush=True)
        if asked.results is not None:
            _add(asked.results, name, played, details, asked.seed)
    return 0


def _add(path, name, played, details, seed):
    held = json.loads(path.read_text()) if path.exists() else {"scenes": {}}
    scene = held["scenes"].setdefault(name, {"times": 0, "seen": {}, "seeds": []})
    scene["times"] += played
    scene["seeds"].append(seed)
    scene["seen"] = dict(Counter(scene["seen"]) + Counter(details))
    scene["done"] = datetime.now(UTC).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
