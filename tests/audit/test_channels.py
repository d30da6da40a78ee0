"""Every way by which something leaves a run, and the test that watches it (the table is in the threat model)."""

import ast
import os
import re
import stat
import subprocess
import sys
import traceback
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from assurance.forms import form_schema, form_table
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import DipsmithError
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream, generator
from dipsmith.schema import Marginal
from dipsmith.sources import source
from dipsmith.synthesis.noisy_count import count_where

ROOT = Path(__file__).parents[2]
VALUE, NUMBER, UNIT = "CANARY-value-3c9e", 982_451_653, "CANARY-unit-b7d0"
CANARIES = (VALUE, str(NUMBER), UNIT)

SCHEMA = """
name: people
unit: {{column: id, max_rows: 1}}
neighbours: {neighbours}
fields:
  - {{name: age, type: integer, minimum: 17, maximum: 90, bins: {{width: 20}}, role: public}}
  - {{name: sex, type: string, enum: [F, M], other: M, role: private}}
  - {{name: pay, type: number, minimum: 0, maximum: 200000, bins: {{round: 100000}}, missing: true, role: private}}
"""

CHANNELS = (
    "files of a release", "order and form of the private file", "names, modes and times of files", "standard output",
    "standard error", "exit code", "ledger", "progress", "warnings", "the studio's answers", "log of `--debug`", "messages of exceptions",
    "chains of exceptions", "`repr` and `_repr_html_`", "temporary files", "processes that are started", "other files",
)  # fmt: skip


def listed():
    """The rows of the threat model's table of channels: the channel, and the tests beside it."""
    text = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
    part = text.split("## Every way out", 1)[1]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    return {line.split("|")[1].strip(): re.findall(r"`(tests/[^`]+)`", line) for line in lines}


def test_every_channel_is_listed_with_a_test():
    assert tuple(listed()) == CHANNELS
    assert all(listed().values())


@pytest.mark.parametrize("named", sorted({test for tests in listed().values() for test in tests}))
def test_every_test_that_is_named_exists(named):
    file, _, name = named.partition("::")
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert name in functions


# --- objects ---------------------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path):
    """Rows whose every private value is a canary, as a table and as a file."""
    n = 60
    table = pa.table(
        {
            "id": [f"{UNIT}-{i}" for i in range(n)],
            "age": [20 + i for i in range(n)],
            "sex": [VALUE if i % 2 else "F" for i in range(n)],
            "pay": [NUMBER] * n,
        }
    )
    pa.csv.write_csv(table, tmp_path / "people.csv")
    return table


def schema_of(tmp_path, relation):
    path = tmp_path / f"{relation}.yaml"
    path.write_text(SCHEMA.format(neighbours=relation))
    return ds.Schema.read(path)


def shown(thing):
    """All that a terminal, a notebook or a log line would show of it."""
    texts = [repr(thing), str(thing), f"{thing}", f"{[thing]}", f"{ {'a': thing} }"]
    page = getattr(thing, "_repr_html_", None)
    return "\n".join([*texts, page() if callable(page) else ""])


@pytest.mark.parametrize(
    ("relation", "method"), [("label", ds.Forest()), ("replace", ds.MST()), ("add-remove", ds.Steps())]
)
def test_no_object_shows_a_private_value(relation, method, people, tmp_path):
    schema = schema_of(tmp_path, relation)
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("people", ds.PureDP(3), by="office", why="pilot")
    release = ds.synthesize(people, schema, method, budget=ds.PureDP(1), ledger=ledger)
    sources = [
        source(people),
        source(people.to_pandas()),
        source(tmp_path / "people.csv"),
        source(people.to_batches()[0]),
    ]
    rows = rows_of(sources[0], schema)
    curator = Curator(rows, ds.PureDP(1), stream=Stream.for_testing(1), journal=Rehearsal())
    (measured,) = curator.measure([Marginal.of(schema, ("sex",))], [ds.PureDP("0.5")])
    folder = release.save(tmp_path / "release")
    loaded = ds.Release.load(folder)
    for thing in (
        release, loaded, release.card, *release.models, release.model.inner, release.schema, schema, method, ledger,
        ledger.show("people"), curator, curator.budget, measured, rows, *sources, ds.verify(folder),
    ):  # fmt: skip
        found = [c for c in CANARIES if c in shown(thing)]
        assert found == [], type(thing).__name__
    # The instrument itself: a frame shows its rows.
    assert VALUE in shown(people.to_pandas())


# --- exceptions ------------------------------------------------------------------------------------


class TalkativeError(Exception):
    """Quotes what it was given."""


class Talkative:
    """A value that fails when it is made into text, and says why."""

    def __str__(self):
        raise TalkativeError(f"{VALUE} of {UNIT}")

    __repr__ = __str__


def chain(error):
    """An exception with all that it came from, suppressed or not, its notes and its printed traceback."""
    seen, texts, todo = set(), [], [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        try:
            texts += [str(each), repr(each.args), *getattr(each, "__notes__", ())]
        except TalkativeError as talking:
            texts.append(str(talking))
        todo += [each.__cause__, each.__context__]
    return "\n".join([*texts, "".join(traceback.format_exception(error))])


def bad_rows(tmp_path, people):
    """Tables and files that cannot be read, or hold what no column should."""
    broken = tmp_path / "broken.csv"
    broken.write_text(f'id,age,sex,pay\n{UNIT},1,"{VALUE},3\n{UNIT},{NUMBER}\n')
    wide = tmp_path / "wide.csv"
    wide.write_text(f"id,age,sex,pay\n{UNIT},1,F,{NUMBER},{VALUE}\n")
    coded = tmp_path / "coded.csv"
    coded.write_bytes(f"id,age,sex,pay\n{UNIT},1,{VALUE}".encode() + b"\xff\xfe,3\n")
    cut = tmp_path / "cut.parquet"
    pa.parquet.write_table(people, cut)
    cut.write_bytes(cut.read_bytes()[:-9] + VALUE.encode())
    frame = people.to_pandas().astype(object)
    frame.loc[3, "sex"] = Talkative()
    nested = pa.table({"id": [[UNIT]], "age": [{"a": VALUE}], "sex": [VALUE.encode()], "pay": [NUMBER]})
    missing = people.rename_columns(["id", "age", VALUE, "pay"])
    return {
        "broken.csv": broken, "wide.csv": wide, "coded.csv": coded, "cut.parquet": cut, "talkative": frame, "nested": nested,
        "missing column": missing, "absent": tmp_path / "absent.csv",
    }  # fmt: skip


@pytest.mark.parametrize("relation", ["replace", "label"])
def test_no_exception_in_the_chain_of_a_refusal_quotes_a_row(relation, people, tmp_path):
    """Not the message, nor what it came from, whether that is suppressed or not."""
    import pyarrow.parquet  # noqa: F401 - used by `bad_rows`

    schema = schema_of(tmp_path, relation)
    refused = {}
    for name, data in bad_rows(tmp_path, people).items():
        method = ds.Forest() if relation == "label" else ds.Flat()
        try:
            ds.synthesize(data, schema, method, budget=ds.PureDP(1), testing=True, noise_seed=1)
        except DipsmithError as error:
            refused[name] = [c for c in CANARIES if c in chain(error)]
    assert len(refused) >= 4
    assert {name: found for name, found in refused.items() if found} == {}


# --- files -----------------------------------------------------------------------------------------


def released(tmp_path, rows=24, delay=None, monkeypatch=None):
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("formed", ds.PureDP(3), by="office")
    release = ds.synthesize(
        form_table(generator(1), rows), form_schema("replace"), ds.Flat(), budget=ds.PureDP(1), ledger=ledger
    )
    return release, release.save(tmp_path / "release")


def test_times_of_released_files_are_that_of_the_card(tmp_path):
    """When a file was written tells how long the rows took."""
    release, folder = released(tmp_path)
    moment = datetime.fromisoformat(release.card.created).timestamp()
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mtime == moment, path.name


def test_times_of_answers_and_learned_schemas_are_those_of_their_reservations(tmp_path):
    ledger, table = ds.Ledger(tmp_path / "b.db"), form_table(generator(1), 40)
    ledger.grant("formed", ds.PureDP(4), by="auditor")
    _, counted = count_where(
        table, form_schema("replace"), "sex = F", budget=ds.PureDP(1), ledger=ledger, out=tmp_path / "count.json"
    )
    ds.learn_schema(
        table,
        budget=ds.PureDP(2),
        neighbours="replace",
        unit="row",
        name="formed",
        ledger=ledger,
        out=tmp_path / "l.yaml",
    )
    for path, run in zip((counted, tmp_path / "l.yaml"), ledger.show("formed").runs, strict=True):
        assert abs(path.stat().st_mtime - datetime.fromisoformat(run.time).timestamp()) < 1e-5


def test_names_and_modes_of_released_files_are_always_the_same(tmp_path):
    seen = []
    for rows in (3, 40):
        (tmp_path / str(rows)).mkdir()
        _, folder = released(tmp_path / str(rows), rows)
        seen.append(
            {p.relative_to(folder).as_posix(): stat.S_IMODE(p.stat().st_mode) for p in (folder, *folder.rglob("*"))}
        )
    assert seen[0] == seen[1]


WRITING = """
import os, sys
from pathlib import Path
written = set()
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path, mode, flags = arguments
        if set(mode or "") & set("wxa+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.add(os.path.abspath(os.fsdecode(path)))
    elif event in ("os.mkdir", "os.rename", "tempfile.mkstemp", "tempfile.mkdtemp"):
        written.add(os.path.abspath(os.fsdecode(arguments[1 if event == "os.rename" else 0])))
    elif event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"):
        print("STARTED", event, arguments)
import dipsmith as ds, pyarrow.csv, dipsmith.synthesis.synthesize, dipsmith.report.figures
import matplotlib.pyplot
sys.addaudithook(hook)
here = Path(sys.argv[1])
ledger = ds.Ledger(here / "b.db")
ledger.grant("people", ds.PureDP(3), by="office")
for relation, method in (("replace", ds.MST()), ("label", ds.Forest())):
    schema = ds.Schema.read(here / f"{relation}.yaml")
    book = ds.Ledger(here / f"{relation}.db")
    book.grant("people", ds.PureDP(3), by="office")
    release = ds.synthesize(here / "people.csv", schema, method, budget=ds.PureDP(1), ledger=book)
    release.save(here / f"out-{relation}")
for path in sorted(written):
    print("WROTE", path)
"""


def test_a_run_writes_nothing_else_and_starts_no_process(people, tmp_path):
    """Neither beside its output and ledger, nor in temporary folders, nor by another process."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for relation in ("replace", "label"):
        schema_of(tmp_path, relation)
    ran = subprocess.run(
        [sys.executable, "-c", WRITING, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "STARTED" not in ran.stdout
    wrote = [line.removeprefix("WROTE ") for line in ran.stdout.splitlines() if line.startswith("WROTE ")]
    assert wrote
    allowed = re.compile(
        rf"{re.escape(str(tmp_path))}/(\.?out-(replace|label)\b|(b|replace|label)\.db|\.[^/]*\.partial)|/dev/|{re.escape(str(scratch))}"
    )
    assert [path for path in wrote if not allowed.match(path)] == []
    assert list(scratch.iterdir()) == []
    assert [c for c in CANARIES if c in ran.stdout + ran.stderr] == []


def test_a_worker_of_the_studio_is_told_its_folder_and_no_more(tmp_path, monkeypatch):
    """Arguments and environment of a process are seen by everyone on the machine, or by its user."""
    from dipsmith.studio import jobs
    from dipsmith.studio.workspace import Workspace

    started = []

    class Started:
        pid = 1

        def __init__(self, arguments, **how):
            started.append((arguments, how))

    monkeypatch.setattr(jobs.subprocess, "Popen", Started)
    monkeypatch.setenv("PGPASSWORD_OF_ANOTHER", "kept as it is")
    workspace = Workspace(tmp_path, tmp_path / "budget.db")
    jobs.submit(workspace, "a1b2c3d4", "synthesize", "p", {"what": VALUE, "password": UNIT})
    jobs.launch(workspace, "a1b2c3d4", 1.0)
    ((arguments, how),) = started
    environment = how.get("env") or dict(os.environ)
    told = "\n".join([*map(str, arguments), *(f"{k}={v}" for k, v in environment.items())])
    assert [c for c in CANARIES if c in told] == []
    assert how["stdout"] == how["stderr"] == how["stdin"] == subprocess.DEVNULL


# --- progress and warnings -------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace", "label"])
def test_progress_and_warnings_are_the_same_for_neighbours(relation, people, tmp_path, recwarn):
    """Stages and their shares follow from the schema and the method; reading tells only how far it is."""
    schema = schema_of(tmp_path, relation)
    method = ds.Forest() if relation == "label" else ds.MST()
    other = people.set_column(2, "sex", pa.array(["M"] * people.num_rows))
    seen = []
    for table in (people, other):
        said = []
        ds.synthesize(
            table, schema, method, budget=ds.PureDP(1), testing=True, noise_seed=1, seed=1,
            progress=lambda stage, share, said=said: said.append((stage, round(share, 6))),
        )  # fmt: skip
        seen.append([s for s in said if s[0] != "reading"])
    stages = [list(dict.fromkeys(stage for stage, _ in said)) for said in seen]
    assert stages[0] == stages[1]
    assert [c for c in CANARIES if c in repr(seen) + " ".join(str(w.message) for w in recwarn)] == []
    assert np.all([0 <= share <= 1 for said in seen for _, share in said])
