"""Running studies: resumed after kill -9 without repeating, tidy results, a ledger for private rows."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from experiment_studies import SMALL, altered

import dipsmith as ds
from dipsmith.errors import BudgetError, DamageError, InputError, OutputError
from dipsmith.experiments import runner
from dipsmith.experiments.experiment import Experiment
from dipsmith.experiments.results import Results
from dipsmith.experiments.runner import JOURNAL
from dipsmith.experiments.study import parse
from dipsmith.experiments.trial import Laboratory


def run(text, out, *, base=Path(), jobs=1, progress=None):
    return runner.run(Laboratory(parse(text), base, out), text, jobs, progress)


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(SMALL)
    return path


def lines(out):
    return (out / JOURNAL).read_text().splitlines()


def test_runs_are_the_same_whether_done_at_once_or_resumed(tmp_path):
    whole = run(SMALL, tmp_path / "a", jobs=1)
    assert len(whole) == 12
    assert not [o.failed for o in whole if o.failed]
    half = lines(tmp_path / "a")[:5]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "study.yaml").write_text(SMALL)
    # A kill can cut the last line short; it is no outcome and must not spoil the next one.
    (tmp_path / "b" / JOURNAL).write_text("\n".join(half) + '\n{"id": "0123", "sp')
    told = []
    again = run(SMALL, tmp_path / "b", jobs=1, progress=told.append)
    assert told[0].from_journal == 5
    assert lines(tmp_path / "b")[:5] == half
    assert len(lines(tmp_path / "b")) == 12
    assert [o.values for o in again] == [o.values for o in whole]


def test_a_finished_study_runs_nothing(tmp_path):
    run(SMALL, tmp_path / "a", jobs=1)
    before = (tmp_path / "a" / JOURNAL).read_bytes()
    told = []
    run(SMALL, tmp_path / "a", jobs=2, progress=told.append)
    assert (tmp_path / "a" / JOURNAL).read_bytes() == before
    assert [s.done for s in told] == [12]


def test_a_changed_study_runs_what_is_new(tmp_path):
    run(SMALL, tmp_path / "a", jobs=1)
    told = []
    more = run(altered(SMALL, "[0.5, 2]", "[0.5, 2, 4]"), tmp_path / "a", jobs=1, progress=told.append)
    assert (told[0].from_journal, len(more)) == (12, 18)
    assert len(lines(tmp_path / "a")) == 18


KILLED = altered(SMALL, "repeats: 2", "repeats: 20")


@pytest.mark.slow
def test_kill_minus_nine_loses_nothing_and_leaves_no_worker(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(KILLED)
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "dipsmith.cli.main",
        "experiment",
        "run",
        str(path),
        "--out",
        str(out),
        "--jobs",
        "2",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not ((out / JOURNAL).exists() and len(lines(out)) >= 8):
        assert process.poll() is None
        time.sleep(0.05)
    workers = children(process.pid)
    assert len(workers) >= 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = [json.loads(line)["id"] for line in (out / JOURNAL).read_bytes().split(b"\n")[:-1]]
    assert 8 <= len(kept) < 120
    while time.monotonic() < deadline and any(alive(w) for w in workers):
        time.sleep(0.1)
    assert not [w for w in workers if alive(w)]
    told = []
    done = run(KILLED, out, jobs=1, progress=told.append)
    ids = [json.loads(line)["id"] for line in lines(out)]
    assert told[0].from_journal == len(kept)
    assert ids[: len(kept)] == kept
    assert len(ids) == len(set(ids)) == len(done) == 120


def children(pid):
    return [int(c) for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


def test_two_runs_cannot_share_a_folder(tmp_path):
    run(SMALL, tmp_path / "a", jobs=1)
    with runner._journal(tmp_path / "a"), pytest.raises(OutputError, match="another run"):
        run(SMALL, tmp_path / "a", jobs=1)


def test_other_folders_are_left_alone(tmp_path):
    run(SMALL, tmp_path / "a", jobs=1)
    with pytest.raises(OutputError, match="results of study 'small'"):
        run(altered(SMALL, "name: small", "name: other"), tmp_path / "a", jobs=1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(OutputError, match="holds no study"):
        run(SMALL, tmp_path / "mine", jobs=1)


def test_a_damaged_journal_is_told(tmp_path):
    run(SMALL, tmp_path / "a", jobs=1)
    (tmp_path / "a" / JOURNAL).write_text('{"id": 1}\n')
    with pytest.raises(DamageError, match="line 1"):
        run(SMALL, tmp_path / "a", jobs=1)


def test_what_a_method_refuses_is_an_outcome(tmp_path):
    text = altered(
        SMALL, "{name: columns, method: marginals}", "{name: labels, method: loglinear, set: {targets: [y]}}"
    )
    path = tmp_path / "study.yaml"
    path.write_text(text)
    results = Experiment.read(path, tmp_path / "a").run(1)
    assert len(results.failed) == 2  # one line per setting, not per repeat
    assert "loglinear runs under neighbours label" in results.failed[0]
    assert "Runs that gave nothing" in (tmp_path / "a" / "report.html").read_text()


def test_results_are_tidy_and_read_back(study, tmp_path):
    results = Experiment.read(study, tmp_path / "a").run(1)
    table = results.table
    assert table.column_names == [
        "run", "method", "epsilon", "post", "repeat", "spent", "metric", "term", "level", "value", "reference",
    ]  # fmt: skip
    assert table.schema.field("epsilon").type == pa.float64()
    assert table.num_rows == 12 * 3  # two metrics and the processor time
    spent = table.column("spent").to_numpy()
    assert np.array_equal(spent, table.column("epsilon").to_numpy())
    again = Results.load(tmp_path / "a" / "results.parquet")
    assert again.table.drop(["reference"]).equals(table.drop(["reference"]))
    response = again.response("tvd-1")
    assert set(response.factors) == {"method", "epsilon", "post"}
    assert (
        response.values[response.factors["epsilon"] == "2"].mean()
        < response.values[response.factors["epsilon"] == "0.5"].mean()
    )
    with pytest.raises(InputError, match="cannot be read"):
        Results.load(study)


def test_the_same_rows_in_a_repeat_other_rows_in_the_next(tmp_path):
    text = altered(SMALL, "metrics: [tvd-1, tvd-2]", "analyses: [{name: fit, formula: 'y ~ x1 + x2', terms: [x1]}]")
    done = run(text, tmp_path / "a", jobs=1)
    authentic = [[m.reference for m in o.values if m.metric == "fit"] for o in done]
    assert all(a == authentic[0] for a in authentic[:6])
    assert all(a == authentic[6] for a in authentic[6:])
    assert authentic[0] != authentic[6]


# --- private rows ------------------------------------------------------------------------------------------------

PRIVATE = """
name: paid
question: What does it cost?
data: {file: people.csv, schema: people.yaml, ledger: budget.db}
vary: {epsilon: [0.5, 1]}
methods: [{method: marginals}]
repeats: 2
metrics: [tvd-1]
"""
SCHEMA = """
name: people
unit: row
neighbours: replace
fields:
  - {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
  - {name: sex, type: string, enum: [F, M], other: M}
"""


@pytest.fixture
def private(tmp_path):
    rng = np.random.default_rng(0)
    rows = pa.table({"age": rng.integers(17, 90, 500), "sex": rng.choice(["F", "M"], 500)})
    pyarrow.csv.write_csv(rows, tmp_path / "people.csv")
    (tmp_path / "people.yaml").write_text(SCHEMA)
    (tmp_path / "study.yaml").write_text(PRIVATE)
    return tmp_path


def test_private_rows_go_through_the_ledger(private):
    ledger = ds.Ledger(private / "budget.db")
    ledger.grant("people", ds.PureDP(3))
    experiment = Experiment.read(private / "study.yaml", private / "out")
    assert str(experiment.laboratory.cost) == "ε = 3"
    experiment.run(1)
    statement = ledger.show("people")
    assert (statement.remaining, statement.looks, len(statement.runs)) == (0, 4, 4)
    report = (private / "out" / "report.html").read_text()
    assert "CONFIDENTIAL" in report
    assert "ε = 3 together" in report
    for folder in (private / "out" / "releases").iterdir():
        ds.verify(folder)
    with pytest.raises(InputError, match="confidential"):
        experiment.write_page(experiment.run(1), private / "page.md", "")


def test_a_study_on_private_rows_tells_no_time_and_is_for_its_owner(private):
    ds.Ledger(private / "budget.db").grant("people", ds.PureDP(3))
    out = private / "out"
    results = Experiment.read(private / "study.yaml", out).run(1)
    assert "seconds" not in " ".join(results.table.column("metric").to_pylist())
    assert {json.loads(line)["seconds"] for line in lines(out)} == {0}
    assert "Processor time" not in (out / "report.html").read_text()
    assert stat.S_IMODE(out.stat().st_mode) == 0o700


def test_no_link_that_lies_ready_is_followed(private):
    ds.Ledger(private / "budget.db").grant("people", ds.PureDP(3))
    out, prey = private / "out", private / "prey"
    out.mkdir()
    prey.write_text("precious")
    (out / "study.yaml").write_text(PRIVATE)
    for name in (".study.yaml.part", ".results.parquet.part", "report.html", "results.parquet"):
        (out / name).symlink_to(prey)
    experiment = Experiment.read(private / "study.yaml", out)
    experiment.run(1)
    assert prey.read_text() == "precious"
    assert not (out / "report.html").is_symlink()
    (out / JOURNAL).rename(private / "journal")
    (out / JOURNAL).symlink_to(private / "journal")
    with pytest.raises(OSError, match="symbolic links"):
        experiment.run(1)


def test_a_resumed_run_on_private_rows_is_not_charged_twice(private):
    ledger = ds.Ledger(private / "budget.db")
    ledger.grant("people", ds.PureDP(3))
    experiment = Experiment.read(private / "study.yaml", private / "out")
    experiment.run(1)
    # As if killed after the release was saved and before the journal's line was written.
    journal = private / "out" / JOURNAL
    journal.write_text("".join(f"{line}\n" for line in lines(private / "out")[:-1]))
    results = run(PRIVATE, private / "out", base=private, jobs=1)
    assert not [o.failed for o in results if o.failed]
    assert ledger.show("people").spent == 3


def test_a_run_that_was_killed_after_reading_is_charged_once_and_told(private, monkeypatch):
    ledger = ds.Ledger(private / "budget.db")
    ledger.grant("people", ds.PureDP(3))

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ds.Release, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            run(PRIVATE, private / "out", base=private, jobs=1)
    assert ledger.show("people").spent == 0.5
    # The grant suffices for the rest: what the killed run cost is not asked for again.
    Experiment.read(private / "study.yaml", private / "out").require_budget()
    done = run(PRIVATE, private / "out", base=private, jobs=1)
    assert ["never draws again" in o.failed for o in done] == [True, False, False, False]
    assert ledger.show("people").spent == 3  # the run that was lost is paid for, and was not paid for again


def test_what_failed_is_tried_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("dipsmith.experiments.trial.authentic_codes", refused)
        assert all(o.failed == "no space left" for o in run(SMALL, tmp_path / "a", jobs=1))
    again = run(SMALL, tmp_path / "a", jobs=1)
    assert not [o for o in again if o.failed]


def refused(*_):
    raise OutputError("no space left")


def test_a_study_that_cannot_be_paid_for_spends_nothing(private):
    ledger = ds.Ledger(private / "budget.db")
    ledger.grant("people", ds.PureDP(2))
    with pytest.raises(BudgetError, match="4 runs cost ε = 3 and 'people' has ε = 2 left"):
        Experiment.read(private / "study.yaml", private / "out").run(1)
    assert ledger.show("people").spent == 0


def test_public_files_are_free_and_say_so(private):
    text = altered(PRIVATE, "ledger: budget.db", "public: made for a test")
    (private / "study.yaml").write_text(text)
    experiment = Experiment.read(private / "study.yaml", private / "out")
    assert experiment.laboratory.cost is None
    experiment.run(1)
    report = (private / "out" / "report.html").read_text()
    assert "public (made for a test): no privacy was spent" in report
    assert "CONFIDENTIAL" not in report
    assert not (private / "budget.db").exists()


THREE = """
name: three
question: Does it matter on which rows trees grow?
data: {example: personnel, rows: 400, years: [1988, 1996]}
methods:
  - {name: own, method: forest, set: {n_b: 100}}
  - {name: other, method: forest, set: {n_b: 100, growth: public-data, public: PUBLIC}}
vary: {epsilon: [1]}
repeats: 1
metrics: [tvd-1]
"""

EARLIER = """
name: earlier
question: What is an earlier file worth?
data: {example: voters, rows: 500}
methods:
  - {method: aim, set: {rounds: 2, prior: {file: earlier.csv, epsilon: 0.25}}}
vary: {epsilon: [1]}
repeats: 1
metrics: [tvd-1]
"""


def test_a_study_starts_from_a_public_file(tmp_path):
    from dipsmith.examples import voters

    pyarrow.csv.write_csv(voters.simulate(300, seed=5), tmp_path / "earlier.csv")
    assert [o.failed for o in run(EARLIER, tmp_path / "out", base=tmp_path)] == [""]
    with pytest.raises(InputError, match="prior needs 'file'"):
        run(altered(EARLIER, "{file: earlier.csv, epsilon: 0.25}", "earlier.csv"), tmp_path / "no", base=tmp_path)


@pytest.mark.slow
def test_a_study_grows_trees_on_a_public_file(tmp_path):
    from dipsmith.examples import personnel

    other, _ = personnel.simulate(100, seed=5)
    at = other.column_names.index("pay")
    pyarrow.csv.write_csv(other.set_column(at, "basic", [other["pay"].to_numpy() / 1.08]), tmp_path / "sd.csv")
    told = "{file: sd.csv, columns: {pay: basic*1.08}, epsilon: 0.25}"
    found = run(altered(THREE, "PUBLIC", told), tmp_path / "out", base=tmp_path)
    assert [o.failed for o in found] == ["", ""]
    with pytest.raises(InputError, match="public needs 'file'"):
        run(altered(THREE, "PUBLIC", "{columns: {pay: basic}}"), tmp_path / "no", base=tmp_path)
    (refused,) = (
        o.failed for o in run(altered(THREE, "PUBLIC", "{file: sd.csv}"), tmp_path / "b", base=tmp_path) if o.failed
    )
    assert "no column 'pay'" in refused
