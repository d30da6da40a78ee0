"""Each leak of the version before 0.1.1 as an attacker met it, by public means alone: commands, `import dipsmith` and HTTP.

Nothing here imports a module that the version before did not have, so that every test can be run against it
(`PYTHONPATH=…/src pytest tests/audit/test_reproductions.py`) and fails there because the leak is there.
"""

import contextlib
import io
import json
import os
import pty
import re
import select
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from dipsmith.cli.main import main
from dipsmith.errors import DipsmithError

MAIN = [sys.executable, "-P", "-m", "dipsmith.cli.main"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
REGISTER = {
    "name": "register",
    "unit": "row",
    "neighbours": "label",
    "fields": [
        {"name": "town", "type": "string", "enum": ["A", "B", "C"], "other": "A", "role": "public"},
        {"name": "person", "type": "string", "enum": ["x"], "other": "x", "role": "public"},
        {"name": "hiv", "type": "string", "enum": ["no", "yes"], "other": "no"},
    ],
}
LABELLING = ds.LogLinear(targets=["hiv"], interactions=0)
PLAIN = {
    "name": "people",
    "unit": "row",
    "neighbours": "add-remove",
    "fields": [
        {"name": "age", "type": "integer", "minimum": 17, "maximum": 90, "bins": {"width": 10}},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ],
}


def register(n: int = 900) -> pa.Table:
    """A register that somebody sorted by diagnosis."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "town": np.array(["A", "B", "C"])[rng.integers(0, 3, n)],
            "person": [f"p{i:06d}" for i in rng.permutation(n)],
            "hiv": np.sort(np.where(rng.random(n) < 0.4, "yes", "no")),
        }
    )


def write(folder: Path, name: str, table: pa.Table, schema: dict[str, object]) -> None:
    table.to_pandas().to_csv(folder / f"{name}.csv", index=False)
    (folder / f"{name}.yaml").write_text(json.dumps(schema))


def people(n: int = 300) -> pa.Table:
    return pa.table({"age": [17 + i % 74 for i in range(n)], "sex": ["FM"[i % 3 > 0] for i in range(n)]})


@dataclass(frozen=True)
class Typed:
    """What a command said, and its exit code."""

    code: int
    said: str


def typed(folder: Path, *words: object) -> Typed:
    """`dipsmith …`, typed in a folder."""
    told, before = io.StringIO(), sys.argv
    sys.argv = ["dipsmith", *map(str, words)]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main()
    except SystemExit as stopped:
        return Typed(int(stopped.code or 0), told.getvalue())
    finally:
        sys.argv = before
    return Typed(0, told.getvalue())


def granted(folder: Path, name: str, epsilon: object = 9) -> None:
    done = typed(folder, "ledger", "grant", name, "--ledger", "b.db", "--epsilon", epsilon)
    assert done.code == 0, done.said


def labelled(folder: Path, data: str, schema: str, out: str, target: str = "hiv") -> Typed:
    """`dipsmith synthesize` under label at ε = 0.01."""
    method = ("--method", "loglinear", "--set", f"targets={target}", "--set", "interactions=0")
    spend = ("--epsilon", "0.01", "--ledger", "b.db", "--out", out)
    return typed(folder, "synthesize", data, "--schema", schema, *method, *spend)


def flat(folder: Path, schema: str, out: str, *more: object) -> Typed:
    spend = ("--epsilon", "1", "--rows", "300", "--ledger", "b.db", "--out", out)
    return typed(folder, "synthesize", "people.csv", "--schema", schema, "--method", "flat", *spend, *more)


# --- 1, 7: what a release says of the file ---------------------------------------------------------


def orders_told(file: Path) -> list[list[str]]:
    """Every order of people that a release's table shows: rows, and dictionaries of each row group."""
    orders = [pq.read_table(file)["person"].to_pylist()]
    with pq.ParquetFile(file, read_dictionary=["person"]) as held:
        for group in range(held.num_row_groups):
            for chunk in held.read_row_group(group, ["person"]).column(0).chunks:
                orders.append(chunk.dictionary.to_pylist())
    return orders


@pytest.mark.parametrize("form", ["csv", "dictionaries", "binary dictionaries"])
def test_1_the_order_of_a_sorted_register_is_not_published(tmp_path, form):
    table = register()
    write(tmp_path, "register", table, REGISTER)
    data = "register.csv"
    if form != "csv":
        kind = pa.binary() if form.startswith("binary") else pa.string()
        data = "register.parquet"
        pq.write_table(table.set_column(1, "person", table["person"].cast(kind).dictionary_encode()), tmp_path / data)
    granted(tmp_path, "register")
    made = labelled(tmp_path, data, "register.yaml", "release")
    assert made.code == 0, made.said
    place = {name: i for i, name in enumerate(table["person"].to_pylist())}
    for order in orders_told(tmp_path / "release" / "synthetic-1.parquet"):
        found = [place[p.decode() if isinstance(p, bytes) else p] for p in order]
        # The correlation of 900 rows in random order has sd 1/30; 6 sd: a false alarm in 2e-9 of runs.
        assert abs(np.corrcoef(found, np.arange(len(found)))[0, 1]) < 0.2


def test_2_a_seed_and_many_sets_do_not_tell_where_a_row_was():
    """The attacker labels a file in an order of their own with the same seed, and looks for equal labels."""
    n, sets = 120, 64
    rng = np.random.default_rng(3)
    people_of = {"town": ["A"] * n, "hiv": np.where(rng.permutation(n) < n / 2, "yes", "no")}
    names = [f"p{i:03d}" for i in rng.permutation(n)]
    theirs = pa.table({**people_of, "person": names})
    own = pa.table({**people_of, "person": sorted(names)})

    def labels(table):
        made = ds.synthesize(
            table, ds.Schema.from_dict(REGISTER), LABELLING, budget=ds.PureDP(50), testing=True, seed=1,
            sets=sets, each="draw",
        )  # fmt: skip
        return {
            person: tuple(label)
            for person, *label in zip(
                *[made.tables[0].sort_by("person")["person"].to_pylist()],
                *[t.sort_by("person")["hiv"].to_pylist() for t in made.tables],
                strict=True,
            )
        }

    released, simulated = labels(theirs), labels(own)
    at = {person: np.array(simulated[person]) for person in own["person"].to_pylist()}
    right = 0
    for i, person in enumerate(names):
        near = [int((at[other] == np.array(released[person])).sum()) for other in sorted(names)]
        right += int(np.argmax(near)) == i
    # By chance one row of n lands at its place; 12 or more do in 1e-9 of runs.
    assert right < 12


def test_7_metadata_of_the_private_table_is_not_released(tmp_path):
    table = register().replace_schema_metadata({"note": "canary-of-the-table"})
    field = table.schema.field(0).with_metadata({"note": "canary-of-a-field"})
    made = ds.synthesize(
        table.cast(table.schema.set(0, field)), ds.Schema.from_dict(REGISTER), LABELLING,
        budget=ds.PureDP(1), testing=True,
    )  # fmt: skip
    made.save(tmp_path / "release")
    assert [p.name for p in (tmp_path / "release").rglob("*") if p.is_file() and b"canary" in p.read_bytes()] == []
    assert not pq.read_schema(tmp_path / "release" / "synthetic-1.parquet").metadata
    assert not made.tables[0].schema.metadata


# --- 3: the ledger ---------------------------------------------------------------------------------


def test_3_two_runs_do_not_release_what_the_other_protects(tmp_path):
    table = register(60)
    towns = {"name": "town", "type": "string", "enum": ["A", "B", "C"], "other": "A"}
    hiv = {"name": "hiv", "type": "string", "enum": ["no", "yes"], "other": "no"}
    write(tmp_path, "one", table, {**REGISTER, "fields": [{**towns, "role": "public"}, hiv]})
    write(tmp_path, "other", table, {**REGISTER, "fields": [towns, {**hiv, "role": "public"}]})
    granted(tmp_path, "register")
    assert labelled(tmp_path, "one.csv", "one.yaml", "first").code == 0
    assert labelled(tmp_path, "one.csv", "other.yaml", "second", "town").code == 4
    assert not (tmp_path / "second").exists()


# --- 4, 5, 6: the studio ---------------------------------------------------------------------------


class RefusedError(Exception):
    """The studio does not want what it was given, and says why."""


class Studio:
    """A studio and its steward, whichever way this version lets them in."""

    def __init__(self, folder: Path) -> None:
        command = [*MAIN, "studio", "--folder", str(folder), "--port", "0", "--no-browser", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("}"):
                break
        self.facts = json.loads(said)
        where = urlsplit(self.facts["address"])
        self.origin = f"http://{where.netloc}"
        self.base = f"http://127.0.0.1:{self.facts['port']}"
        self.client = self.stranger()
        if "code" in self.facts:
            answer = self.client.post("/enter", json={"offer": self.facts["code"]}, headers={"Origin": self.origin})
            self.secret = answer.json()["secret"]
        else:  # the version before: the address is the invitation
            answer = self.client.get(self.facts["address"], follow_redirects=True)
            self.secret = token_on(answer.text)
        assert answer.status_code == 200
        self.client.headers["X-Dipsmith-Token"] = self.secret

    def stranger(self) -> httpx.Client:
        return httpx.Client(base_url=self.base, headers={"Host": urlsplit(self.origin).netloc}, timeout=60)

    def ask(self, method: str, path: str, body: object = None) -> dict:
        answer = self.client.request(method, path, json=body, headers={"Origin": self.origin})
        if answer.status_code == 400:
            raise RefusedError(answer.text)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def project(self, schema: dict[str, object]) -> str:
        made = self.ask("POST", "/api/projects", {"data": "people.csv"})["project"]
        read = self.ask("POST", f"/api/p/{made}/schema/import", {"text": json.dumps(schema)})
        self.ask("POST", f"/api/p/{made}/schema", {"revision": 1, "document": read["document"]})
        name = read["document"]["name"]
        self.ask("POST", "/api/grant", {"name": name, "currency": "epsilon", "amount": "2"})
        chosen = {"method": "flat", "currency": "epsilon", "amount": "0.5", "rows": 300}
        self.ask("POST", f"/api/p/{made}/plan", {"choices": chosen})
        return made

    def run(self, project: str) -> list[dict]:
        """Start a job; every answer about it until it has ended."""
        job = self.ask("POST", f"/api/p/{project}/run", {"request": "8c1d7f1e-0000-4000-8000-000000000001"})
        told, end = [], time.monotonic() + 240
        while time.monotonic() < end:
            told += [j for j in self.ask("GET", f"/api/p/{project}/jobs")["jobs"] if j["id"] == job["job"]]
            if told[-1]["status"] in ("finished", "failed", "stopped"):
                break
            time.sleep(0.2)
        return told


def token_on(page: str) -> str:
    found = re.search(r'name="dipsmith-token" content="([^"]+)"', page)
    return found[1] if found else ""


@pytest.fixture
def studio(tmp_path):
    write(tmp_path, "people", people(), PLAIN)
    made = []

    def start() -> Studio:
        made.append(Studio(tmp_path))
        return made[-1]

    yield start
    for each in made:
        each.client.close()
        each.process.terminate()
        each.process.wait(120)
        each.process.stdout.close()


def test_4_the_name_of_a_schema_is_not_run_by_the_exported_script(studio, tmp_path):
    mark = tmp_path / "ran"
    name = f'people"""; __import__("pathlib").Path({str(mark)!r}).touch(); raise SystemExit; """'
    running = studio()
    try:
        project = running.project({**PLAIN, "name": name})
    except RefusedError as refused:
        told = str(refused)
    else:
        told = ""
    if told:
        assert "name has" in told
        return
    script = running.client.get(f"/p/{project}/script.py").text
    (tmp_path / "script.py").write_text(script)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=False)
    assert not mark.exists()


def test_5_a_job_of_the_studio_runs_no_file_beside_the_data(studio, tmp_path):
    (tmp_path / "pyarrow.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    running = studio()
    told = running.run(running.project(PLAIN))
    assert not (tmp_path / "ran").exists()
    assert told[-1]["status"] == "finished"


def test_6_the_cookie_alone_grants_nothing(studio, tmp_path):
    """What another port of 127.0.0.1 was sent by the browser, replayed."""
    running = studio()
    cookies = "; ".join(f"{c.name}={c.value}" for c in running.client.cookies.jar)
    assert cookies
    with running.stranger() as replay:
        held = {"Cookie": cookies, "Origin": running.origin}
        held["X-Dipsmith-Token"] = token_on(replay.get("/", headers=held).text)
        body = {"name": "people", "currency": "epsilon", "amount": "1000"}
        assert replay.post("/api/grant", json=body, headers=held).status_code != 200
    assert not (tmp_path / "budget.db").exists()


def test_6_no_argument_of_the_browser_lets_a_stranger_in(tmp_path):
    work, own = tmp_path / "work", tmp_path / "own"
    for folder in (work, own):
        folder.mkdir(mode=0o700)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/part" && mv "{tmp_path}/part" "{tmp_path}/argv"\n')
    browser.chmod(0o755)
    command = [*MAIN, "studio", "--port", "0", "--folder", str(work)]
    environment = {**ENVIRONMENT, "BROWSER": str(browser), "XDG_RUNTIME_DIR": str(own)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        end = time.monotonic() + 240
        while not (tmp_path / "argv").exists() and time.monotonic() < end:
            time.sleep(0.05)
        for word in (tmp_path / "argv").read_text().split():
            where = urlsplit(word)
            if where.scheme == "http":
                assert httpx.get(word, follow_redirects=True).status_code != 200
            elif where.scheme == "file":
                assert stat.S_IMODE(Path(where.path).stat().st_mode) == 0o600
    finally:
        process.terminate()
        process.wait(120)


# --- 8: formulas -----------------------------------------------------------------------------------


def test_8_the_name_of_a_column_in_a_loaded_release_is_not_run(tmp_path):
    mark = tmp_path / "ran"
    name = f"x` + I(__import__('os').system('touch {mark}')) + `x"
    with contextlib.suppress(DipsmithError):
        schema = {**PLAIN, "neighbours": "replace"}
        schema["fields"] = [{"name": n, "type": "boolean"} for n in ("y", "x", name)]
        table = pa.table({"y": [True, False] * 20, "x": [True, True, False, False] * 10, name: [True] * 40})
        made = ds.synthesize(table, ds.Schema.from_dict(schema), ds.Flat(), budget=ds.PureDP(2), testing=True)
        loaded = ds.Release.load(made.save(tmp_path / "release"))
        ds.fit(loaded, f'y ~ x + Q("{name}")', rule="sampling", family="ols")
    assert not mark.exists()


# --- 9: failures that depend on values -------------------------------------------------------------


class Loud:
    def __str__(self) -> str:
        raise RuntimeError("canary")


def far(kind: pa.DataType, *held: int) -> pa.Table:
    return pa.table({"x": pa.Array.from_buffers(kind, len(held), [None, pa.py_buffer(np.array(held))])})


def surrogates(*, categories: bool) -> pd.DataFrame:
    column = pd.Series(["a", "\ud800", "b"], dtype=pd.StringDtype("python", pd.NA))
    return pd.DataFrame({"x": column.astype("category") if categories else column})


ODD = {
    "surrogate": ("string", lambda: surrogates(categories=False)),
    "surrogate in categories": ("string", lambda: surrogates(categories=True)),
    "object that raises": ("string", lambda: pd.DataFrame({"x": ["a", Loud()]})),
    "time out of range": ("string", lambda: far(pa.time64("us"), 0, 2**62)),
    "date64 not at midnight": ("date", lambda: far(pa.date64(), 0, 86_400_007)),
    "run-end encoded views": (
        "string",
        lambda: pa.table({"x": pa.RunEndEncodedArray.from_arrays([1, 2], pa.array(["a", "b"], pa.string_view()))}),
    ),
}
DOMAINS = {
    "string": {"enum": ["a", "b"], "other": "b"},
    "date": {"minimum": "1960-01-01", "maximum": "1990-12-31", "bins": {"width": "year"}},
}


@pytest.mark.parametrize("name", [*ODD, "time out of range in Parquet"])
def test_9_no_value_decides_whether_a_run_succeeds(tmp_path, name):
    kind, make = ODD[name.removesuffix(" in Parquet")]
    data = make()
    if name.endswith(" in Parquet"):
        pq.write_table(data, tmp_path / "x.parquet")
        data = tmp_path / "x.parquet"
    schema = {**PLAIN, "fields": [{"name": "x", "type": kind, "missing": True, **DOMAINS[kind]}]}
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("people", ds.PureDP(2))
    made = ds.synthesize(data, ds.Schema.from_dict(schema), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    assert made.save(tmp_path / "release")


# --- 10 --------------------------------------------------------------------------------------------

CLOCK = re.compile(r"\d+:\d\d|\d+(?:\.\d+)?\s*(?:s\b|sec|min)|remaining")


def test_10_the_studio_does_not_tell_how_long_a_run_takes(studio):
    running = studio()
    for told in running.run(running.project(PLAIN)):
        assert {k for k, v in told.items() if type(v) in (int, float)} <= {"share"}


def test_10_the_terminal_does_not_tell_how_long_a_run_takes(tmp_path):
    write(tmp_path, "people", people(20_000), PLAIN)
    granted(tmp_path, "people")
    spend = ["--method", "mst", "--epsilon", "1", "--rows", "20000", "--ledger", "b.db", "--out", "release"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MAIN, "synthesize", "people.csv", "--schema", "people.yaml", *spend],
        cwd=tmp_path, env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "160"}, stdout=subprocess.DEVNULL, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while select.select([ours], [], [], 240)[0] and (piece := os.read(ours, 65536)):
            shown += piece
    os.close(ours)
    assert process.wait(240) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode("utf-8", "replace"))
    assert "%" in text
    assert CLOCK.findall(text.replace("0:00:00", "0:00:01")) == []


def test_10_rows_without_a_unit_id_are_nobody():
    """As one unit together, one of them would count: a person with an id and without would count twice."""
    schema = ds.Schema.from_dict({**PLAIN, "unit": {"column": "id", "max_rows": 1}})
    table = people(40).append_column("id", pa.nulls(40, pa.string()))
    made = ds.synthesize(table, schema, ds.Flat(), budget=ds.PureDP(50), testing=True)
    assert made.tables[0].num_rows == 0


def test_10_a_replayed_request_does_not_return_another_release(tmp_path):
    write(tmp_path, "people", people(), PLAIN)
    granted(tmp_path, "people")
    for out in ("one", "two"):
        assert flat(tmp_path, "people.yaml", out, "--request", f"request-{out}").code == 0
    shutil.rmtree(tmp_path / "one")
    shutil.copytree(tmp_path / "two", tmp_path / "one")
    assert flat(tmp_path, "people.yaml", "three", "--request", "request-one").code == 5


def test_10_the_same_file_under_another_name_gets_no_fresh_grant_unnoticed(tmp_path):
    write(tmp_path, "people", people(), PLAIN)
    (tmp_path / "others.yaml").write_text(json.dumps({**PLAIN, "name": "others"}))
    for name in ("people", "others"):
        granted(tmp_path, name)
    assert flat(tmp_path, "people.yaml", "one").code == 0
    assert flat(tmp_path, "others.yaml", "two").code == 4
    assert not (tmp_path / "two").exists()


def test_10_no_file_is_written_through_a_link_that_lies_ready(tmp_path, monkeypatch):
    """Under the names that the version before gave to its log and to files that were not yet whole."""
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    work = tmp_path / "work"
    work.mkdir()
    write(work, "people", people(), PLAIN)
    granted(work, "people")
    for name in ("dipsmith-debug-CONFIDENTIAL.log", f".draft.yaml.{os.getpid()}.partial"):
        (work / name).symlink_to(theirs)
    monkeypatch.setattr(ds.Flat, "fit", None)
    monkeypatch.setenv("DIPSMITH_DEBUG", "1")
    spend = ["--epsilon", "1", "--ledger", "b.db", "--out", "release", "--rows", "300"]
    for words in (
        ["schema", "init", "people.csv", "--out", "draft.yaml"],
        ["synthesize", "people.csv", "--schema", "people.yaml", "--method", "flat", *spend],
    ):
        typed(work, *words)
    assert theirs.read_text() == "theirs"
