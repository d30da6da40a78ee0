"""The ledger under attack by crowds, kill -9, full disks, and broken files."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import pytest

from dipsmith.errors import BudgetError, DamageError, DipsmithError, InputError, OutputError
from dipsmith.privacy.budget import UNITS, PureDP
from dipsmith.privacy.chain import Chain
from dipsmith.privacy.events import Measured
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.protection import Replace
from dipsmith.schema import Unit

ROW = Unit()


def ask(ledger, budget, request, name="people"):
    return ledger.reserve(name, budget, protects=Replace(ROW), source=None, request_id=request, method="flat")


def counts(budget):
    return Measured(
        cells="age",
        size=4,
        mechanism="discrete Laplace",
        sensitivity=Fraction(2),
        scale=2 / budget.exact,
        budget=budget,
    )


def in_child(act):
    """Run in a forked process; gives what it reports: None, or the error's class and message."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        try:
            act()
            report = None
        except BaseException as error:  # noqa: BLE001 - reported to the test
            report = [type(error).__name__, str(error)]
        os.write(sender, json.dumps(report).encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.fixture
def quick(tmp_path):
    """A folder in memory for the full-size tests: a crowd or a kill tries locks and journals, not the disk.

    The small sizes of the same tests run on the disk.
    """
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory))
    yield folder
    shutil.rmtree(folder)


# --- crowds ---------------------------------------------------------------------------------------


def spender(folder, number, rounds, spends, barrier, results):
    """One process of the crowd: in each round spend as often as it can, as fast as it can."""
    chance = random.Random(number)
    outcome = {"granted": [], "refused": 0, "errors": []}
    for r in range(rounds):
        ledger = Ledger(Path(folder) / f"round-{r}.db")
        budgets = [PureDP.of_units(chance.randrange(1, 2 * UNITS // 100)) for _ in range(spends)]
        spent = 0
        barrier.wait()
        for i, budget in enumerate(budgets):
            try:
                ask(ledger, budget, f"{number}-{r}-{i}")
                spent += budget.units
            except BudgetError:
                outcome["refused"] += 1
            except Exception as error:  # noqa: BLE001 - every other outcome is what the test looks for
                outcome["errors"].append(repr(error))
        outcome["granted"].append(spent)
    results.put(outcome)


def crowd(folder, processes, spends, rounds):
    context = multiprocessing.get_context("fork")
    # About half of what the crowd asks for: on average 0.01 a spend.
    limit = PureDP(Fraction(processes * spends, 200))
    for r in range(rounds):
        Ledger(folder / f"round-{r}.db").grant("people", limit)
    barrier, results = context.Barrier(processes), context.Queue()
    crowd = [
        context.Process(target=spender, args=(str(folder), p, rounds, spends, barrier, results))
        for p in range(processes)
    ]
    for process in crowd:
        process.start()
    outcomes = [results.get(timeout=300) for _ in crowd]
    for process in crowd:
        process.join()
    assert [error for outcome in outcomes for error in outcome["errors"]] == []
    assert sum(outcome["refused"] for outcome in outcomes) > 0, "the limit was never reached"
    for r in range(rounds):
        ledger = Ledger(folder / f"round-{r}.db")
        ledger.verify()
        shown = ledger.show("people")
        assert shown.spent_units == sum(outcome["granted"][r] for outcome in outcomes)
        assert shown.spent_units <= shown.granted_units == limit.units
        # The last refusals were right: less was left than the largest spend.
        assert shown.remaining_units < 2 * UNITS // 100


def test_a_small_crowd_never_overspends(tmp_path):
    crowd(tmp_path, processes=6, spends=10, rounds=2)


@pytest.mark.crowd
def test_16_processes_20_spends_20_rounds_never_overspend(quick):
    crowd(quick, processes=16, spends=20, rounds=20)


def test_a_crowd_creates_one_ledger(tmp_path):
    """All processes grant at once into a file that does not exist yet."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(8), context.Queue()

    def grant(number):
        barrier.wait()
        try:
            Ledger(tmp_path / "budget.db").grant("people", PureDP(1), by=f"office {number}")
            results.put("")
        except Exception as error:  # noqa: BLE001 - reported to the test
            results.put(repr(error))

    crowd = [context.Process(target=grant, args=(p,)) for p in range(8)]
    for process in crowd:
        process.start()
    assert {results.get(timeout=300) for _ in crowd} == {""}
    for process in crowd:
        process.join()
    ledger = Ledger(tmp_path / "budget.db")
    assert ledger.show("people").granted == 8
    assert ledger.verify().rows == 9


def test_one_request_id_in_many_hands_is_read_once(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.grant("people", PureDP(1))
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(8), context.Queue()

    def draw():
        barrier.wait()
        try:
            run = ask(Ledger(ledger.path), PureDP(1), "same")
            run.read()
            results.put("read")
            run.finish("d" * 64, tmp_path)
        except AlreadyReleased:
            results.put("released")
        except BudgetError:
            results.put("refused")
        except Exception as error:  # noqa: BLE001 - reported to the test
            results.put(repr(error))

    crowd = [context.Process(target=draw) for _ in range(8)]
    for process in crowd:
        process.start()
    outcomes = [results.get(timeout=300) for _ in crowd]
    for process in crowd:
        process.join()
    assert outcomes.count("read") == 1
    assert set(outcomes) <= {"read", "released", "refused"}
    assert ledger.show("people").spent == 1


# --- kill -9 --------------------------------------------------------------------------------------


def release_often(path, folder, number, times=10_000):
    """Release after release, each written to a temporary file and renamed, as fast as possible."""
    ledger = Ledger(path)
    for i in range(times):
        request = f"{number}-{i}"
        with ask(ledger, PureDP("0.001"), request) as run:
            run.read()
            run.record(counts(PureDP("0.001")))
            temporary = folder / f".{request}.partial"
            with temporary.open("w") as file:
                file.write(json.dumps({"request": request, "head": run.head}))
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(folder / f"{request}.json")
            run.finish("d" * 64, folder / f"{request}.json")


def kill_at_random(ledger, folder, kills, chance):
    """Kill the releasing process at random moments; after each kill everything must be in order."""
    start = time.perf_counter()
    release_often(ledger.path, folder, "whole", times=3)
    once = (time.perf_counter() - start) / 3
    for number in range(kills):
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                release_often(ledger.path, folder, number)
            os._exit(0)
        time.sleep(chance.uniform(0, 4 * once))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the process must die by the signal, not before it"
        check_after_kill(Ledger(ledger.path), folder)


def check_after_kill(ledger, folder):
    statement = ledger.show("people")
    runs = {run.id: run for run in statement.runs}
    assert statement.spent_units == sum(r.charge for r in runs.values() if r.state != "cancelled")
    assert statement.spent_units <= statement.granted_units
    heads = []
    for released in folder.glob("*.json"):
        card = json.loads(released.read_text())
        heads.append(card["head"])
        assert runs[card["request"]].state in ("read", "finished"), "released without a charge"
    for run in runs.values():
        if run.state == "finished":
            assert Path(run.path).exists()
    ledger.verify(cards=heads)


@pytest.mark.slow
def test_nothing_is_released_uncharged_when_the_process_is_killed(tmp_path):
    kill_and_check(tmp_path, kills=12)


@pytest.mark.crowd
def test_nothing_is_released_uncharged_after_200_kills(quick):
    states = kill_and_check(quick, kills=200)
    assert states == {"finished", "reserved", "read"}, "the kills must hit every stage"


def kill_and_check(tmp_path, kills):
    ledger, folder = Ledger(tmp_path / "budget.db"), tmp_path / "releases"
    ledger.grant("people", PureDP(1000))
    folder.mkdir()
    kill_at_random(ledger, folder, kills, random.Random(2))
    states = {run.state for run in ledger.show("people").runs}

    # Every id that was in flight behaves as promised afterwards.
    for run in ledger.show("people").runs:
        before = ledger.show("people").spent_units
        if run.state == "reserved":
            with ask(ledger, PureDP("0.001"), run.id) as resumed:
                resumed.read()
                resumed.finish("d" * 64, folder)
        elif run.state == "read":
            with pytest.raises(BudgetError, match="never draws again"):
                ask(ledger, PureDP("0.001"), run.id)
        assert ledger.show("people").spent_units == before
    ledger.verify()
    return states


# --- disks and files ------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", PureDP(2))
    with ask(book, PureDP("0.5"), "r1") as run:
        run.record(counts(PureDP("0.5")))
        run.finish("d" * 64, "release")
    return book


def test_a_full_disk_charges_nothing_and_breaks_nothing(ledger):
    size = Path(ledger.path).stat().st_size

    def grow():
        # No file may grow: what the kernel answers is what it answers on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for i in range(200):
            ask(Ledger(ledger.path), PureDP("0.001"), f"full-{i}")

    name, message = in_child(grow)
    assert name == "OutputError"
    assert "disk" in message
    assert "\n" not in message
    runs = ledger.show("people").runs
    assert ledger.show("people").spent_units == sum(r.charge for r in runs)
    ledger.verify()
    ask(ledger, PureDP(1), "after")


def test_a_failure_to_note_the_end_does_not_hide_the_error(ledger, tmp_path):
    run = ask(ledger, PureDP(1), "r2")
    run.read()
    shutil.move(ledger.path, tmp_path / "elsewhere.db")
    with pytest.raises(ZeroDivisionError) as error, run:
        raise ZeroDivisionError
    assert "could not note how the run ended" in error.value.__notes__[0]
    assert not Path(ledger.path).exists(), "a ledger that was moved away is never started anew by a run"
    assert Ledger(tmp_path / "elsewhere.db").show("people").spent == 1.5


def test_a_read_only_ledger_can_be_read_and_not_written():
    folder = Path(tempfile.mkdtemp())
    try:
        book = Ledger(folder / "budget.db")
        book.grant("people", PureDP(2))
        Path(book.path).chmod(0o444)
        folder.chmod(0o555)

        def as_anybody(act):
            if os.getuid() == 0:
                os.setuid(65534)
            act()

        assert in_child(lambda: as_anybody(Ledger(book.path).verify)) is None
        name, message = in_child(lambda: as_anybody(lambda: ask(Ledger(book.path), PureDP(1), "r1")))
        assert (name, message) == (
            "OutputError",
            f"ledger '{book.path}' is read-only: make the file and its folder writable",
        )
        Path(book.path).chmod(0o000)
        name, message = in_child(lambda: as_anybody(Ledger(book.path).verify))
        assert name == "InputError"
        assert "permissions" in message
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_charges_are_synced_to_the_disk_with_their_folder(tmp_path):
    """A power cut cannot be staged here; that SQLite was told to survive one can be seen."""
    chain = Chain(tmp_path / "budget.db")
    with chain.writing(create=True) as transaction:
        assert transaction.connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert transaction.connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_ledger_held_too_long_says_so(ledger):
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match=r"held by another process for over 0\.05 s"):
            ask(Ledger(ledger.path, patience=0.05), PureDP(1), "r2")
    ask(Ledger(ledger.path, patience=0.05), PureDP(1), "r2")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"folder '.*/no' does not exist"):
        Ledger(tmp_path / "no" / "budget.db").grant("people", PureDP(1))
    with pytest.raises(InputError, match="it is a folder"):
        Ledger(tmp_path).grant("people", PureDP(1))


@pytest.mark.parametrize("content", [b"not a database, but long enough to be mistaken for one" * 40, b"\x00" * 4096])
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "budget.db"
    path.write_bytes(content)
    for verb in (
        lambda: Ledger(path).grant("people", PureDP(1)),
        lambda: ask(Ledger(path), PureDP(1), "r1"),
        Ledger(path).show,
        Ledger(path).verify,
    ):
        with pytest.raises(DamageError, match="damaged or not a ledger"):
            verb()
    assert path.read_bytes() == content


def test_another_database_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE people (name TEXT)")
    with pytest.raises(InputError, match="not a dipsmith ledger"):
        Ledger(tmp_path / "other.db").grant("people", PureDP(1))


def test_a_newer_format_is_refused(ledger):
    with closing(sqlite3.connect(ledger.path)) as raw:
        raw.execute("PRAGMA user_version=4")
    with pytest.raises(InputError, match="upgrade dipsmith"):
        Ledger(ledger.path).show()


def test_an_empty_file_is_a_ledger_without_grants(tmp_path):
    path = tmp_path / "budget.db"
    path.touch()
    with pytest.raises(BudgetError, match="no grant"):
        ask(Ledger(path), PureDP(1), "r1")
    for verb in (Ledger(path).verify, lambda: Ledger(path).head):
        with pytest.raises(DamageError, match="no rows"):
            verb()
    Ledger(path).grant("people", PureDP(1))
    Ledger(path).verify()


def test_a_ledger_emptied_while_in_use_is_damage(ledger):
    Path(ledger.path).write_bytes(b"")
    with pytest.raises(DamageError, match="lost its rows"):
        ask(ledger, PureDP(1), "r2")


def outcome(path):
    """What a damaged ledger says: its balances, or the class of its refusal."""
    try:
        Ledger(path).verify()
        return Ledger(path).show("people").as_dict()
    except DipsmithError as error:
        return "more than a line" if "\n" in str(error) else type(error).__name__


@pytest.mark.slow
def test_flipped_bits_are_found_or_harmless(ledger, tmp_path):
    """Never another exception, never another balance: 400 random single-byte changes."""
    chance = random.Random(3)
    sound = Path(ledger.path).read_bytes()
    expected = outcome(ledger.path)
    found = 0
    for _ in range(400):
        broken = bytearray(sound)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        (tmp_path / "broken.db").write_bytes(broken)
        seen = outcome(tmp_path / "broken.db")
        if seen != expected:
            assert seen in ("DamageError", "InputError")
            found += 1
    assert found > 40, "flips within rows must be found"


def test_lost_pages_are_found(ledger, tmp_path):
    sound = Path(ledger.path).read_bytes()
    for size in range(1, len(sound), 997):
        (tmp_path / "short.db").write_bytes(sound[:size])
        assert outcome(tmp_path / "short.db") == "DamageError"


def test_every_message_of_a_fault_is_one_line(ledger, tmp_path):
    (tmp_path / "text.db").write_text("x" * 5000)
    for path in (tmp_path, tmp_path / "text.db", tmp_path / "no" / "budget.db"):
        with pytest.raises((DamageError, InputError, OutputError)) as refusal:
            Ledger(path).grant("people", PureDP(1))
        assert "\n" not in str(refusal.value)
