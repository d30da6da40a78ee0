"""`dipsmith serve --stdio`: one request, one answer, by the same rules as the command line."""

import json
import subprocess
import sys

import jsonschema
import pytest

import dipsmith as ds
from dipsmith.cli.serve import answer_to, protocol

REQUESTS = [
    b"not json",
    b"[]",
    b'{"id": 1.5, "command": "verify", "arguments": {}}',
    b'{"id": 1, "command": "studio", "arguments": {}}',
    b'{"id": 1, "command": "verify", "arguments": {"release": "nowhere"}}',
    b'{"id": 1, "command": "verify", "arguments": {"release": "--ledger"}}',
    b'{"id": 1, "command": "verify", "arguments": {"relase": "x"}}',
    b'{"id": 1, "command": "verify", "arguments": {"release": {"a": 1}}}',
    b'{"id": 1, "command": "verify", "arguments": []}',
    b'{"id": 1, "command": "plan", "arguments": {}}',
    b'{"id": 1, "command": "plan", "more": 1, "arguments": {}}',
    b"[" * 100_000,
    b"x" * ((1 << 20) + 1),
]


@pytest.fixture(scope="module")
def checked():
    schema = protocol()
    jsonschema.Draft202012Validator.check_schema(schema)

    def check(message, kind):
        part = {"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]}
        jsonschema.Draft202012Validator(part).validate(message)
        return message

    return check


@pytest.mark.parametrize("line", REQUESTS, ids=range(len(REQUESTS)))
def test_a_wrong_request_gets_an_answer_with_an_exit_code(line, checked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = checked(answer_to(line), "answer")
    assert answer["ok"] is False
    assert answer["error"]["exit_code"] in (2, 3)
    assert "\n" not in answer["error"]["message"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "p.csv").write_text("office,sex\n" + "north,F\nsouth,M\n" * 100)
    (folder / "p.yaml").write_text(
        "name: p\nunit: row\nneighbours: label\nfields:\n"
        "- {name: office, type: string, enum: [north, south], other: south, role: public}\n"
        "- {name: sex, type: string, enum: [F, M], other: M, role: private}\n"
    )
    ds.Ledger(folder / "b.db").grant("p", ds.PureDP("0.3"), by="data office")
    return folder


@pytest.mark.slow
def test_requests_are_answered_in_order_by_one_process(place, checked):
    """Plan, release, be refused for want of budget, verify, ask, fit; in a process of its own, as other programs do."""
    path = {name: str(place / name) for name in ("p.csv", "p.yaml", "b.db", "release")}
    budget = {"schema": path["p.yaml"], "method": "loglinear", "epsilon": 0.3}
    run = {"data": path["p.csv"], "ledger": path["b.db"], "out": path["release"], "format": "csv", **budget}
    asked = [
        ("plan", {**budget, "rows": 200}),
        ("synthesize", run),
        ("synthesize", {**run, "out": path["release"] + "-2"}),
        ("verify", {"release": path["release"], "ledger": path["b.db"]}),
        ("supports", {"release": path["release"], "asked": ["sex", "office"]}),
        ("fit", {"release": path["release"], "formula": "sex ~ 1", "level": 0.9}),
    ]
    lines = [checked({"id": i, "command": c, "arguments": a}, "request") for i, (c, a) in enumerate(asked)]
    done = subprocess.run(
        [sys.executable, "-m", "dipsmith.cli.main", "serve", "--stdio"],
        input="\n".join(json.dumps(line) for line in lines) + "\n\n",
        capture_output=True,
        text=True,
        check=True,
        cwd=place,
    )
    answers = [checked(json.loads(line), "answer") for line in done.stdout.splitlines()]
    assert [a["id"] for a in answers] == list(range(len(asked)))
    planned, made, refused, verified, supported, fitted = answers
    assert planned["ok"]
    assert made["result"]["guarantee"].startswith("ε = 0.3")
    assert refused["error"]["exit_code"] == 4
    assert not (place / "release-2").exists()
    assert verified["result"]["whole"] is True
    assert verified["result"]["ledger"] is True
    assert supported["result"]["level"] == "measured"
    assert fitted["ok"] or fitted["error"]["exit_code"] == 2


def test_nothing_heavy_is_loaded_before_the_first_request():
    """A cold start is quick because arrays and tables are imported where they are used."""
    script = (
        "import sys, dipsmith.cli.main; from dipsmith.cli.serve import answer_to; answer_to(b'[]'); "
        "sys.exit(any(m in sys.modules for m in ('numpy', 'pyarrow', 'scipy', 'pandas', 'cryptography')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_documented_schema_is_the_one_in_use():
    from pathlib import Path

    stored = Path(__file__).parents[2] / "docs" / "reference" / "serve.schema.json"
    assert json.loads(stored.read_text("utf-8")) == protocol(), (
        "dipsmith serve --schema > docs/reference/serve.schema.json"
    )
