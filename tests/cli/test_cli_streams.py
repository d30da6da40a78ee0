"""What surrounds a command: streams that are closed or know few characters, signals, the system's refusals.

Whatever they are, a run that was charged is told of, and nothing half-written stays.
"""

import io
import json
import os
import signal
import sys

import pytest

RUN = ("synthesize", "people.csv", "--schema", "people.yaml", "--method", "flat", "--epsilon", "1")
RUN = (*RUN, "--ledger", "b.db", "--out", "out")


def spent(dipsmith):
    return json.loads(dipsmith("ledger", "show", "people", "--ledger", "b.db", "--json").out)["spent"]


def test_characters_that_standard_output_lacks_are_escaped(dipsmith, office, monkeypatch):
    held = io.BytesIO()
    with monkeypatch.context() as there:
        there.setattr(sys, "stdout", io.TextIOWrapper(held, encoding="latin-1"))
        assert dipsmith(*RUN).code == 0
        assert dipsmith("ledger", "show", "people", "--ledger", "b.db", "--json").code == 0
        sys.stdout.flush()
        said = held.getvalue().decode("latin-1")
    assert r"\u03b5 = 1" in said
    assert json.loads(said[said.index("\n{") :])["runs"][0]["budget"] == "ε = 1"


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_does_not_stop_a_run(dipsmith, office, monkeypatch, closed):
    with monkeypatch.context() as there:
        there.setattr(sys, closed, None)
        assert dipsmith(*RUN).code == 0
        assert dipsmith("schema", "check", "people.yaml").code == 0
        getattr(sys, closed).close()
    assert (office / "out" / "card.json").is_file()


def test_names_are_shown_as_they_are_written(dipsmith, office):
    assert "a:cat:" in dipsmith("schema", "check", "people.yaml").out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_writing_leaves_the_charge_and_nothing_else(dipsmith, office, monkeypatch, number, code):
    def struck(schema):
        os.kill(os.getpid(), number)
        raise AssertionError("the signal was not heard")

    before = sorted([*office.iterdir(), office / "b.db.key"]), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("dipsmith.synthesis.release.codebook", struck)
    ran = dipsmith(*RUN)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("dipsmith: error: interrupted; what was spent stays spent")
    assert ran.err.count("\n") == 1
    assert (sorted(office.iterdir()), signal.getsignal(signal.SIGTERM)) == before
    assert spent(dipsmith) == 1


LONG = "x" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("synthesize", LONG, *RUN[2:]),
        (*RUN[:-1], LONG),
        (*RUN[:-4], "--ledger", LONG, "--out", "out"),
        ("schema", "check", LONG),
        ("schema", "init", "people.csv", "--out", LONG),
        ("schema", "init", "people.csv", "--out", "nowhere/people.yaml"),
        ("verify", LONG),
        ("report", LONG, "--out", "r.html"),
        ("ledger", "show", "--ledger", LONG),
        ("ledger", "backup", LONG, "--ledger", "b.db"),
        ("ledger", "verify", "--ledger", "b.db", "--card", LONG),
        ("demo", "--folder", LONG),
        ("interval", "--plot", f"{LONG}.svg"),
    ],
    ids=lambda a: " ".join(a)[:40],
)
def test_what_the_system_refuses_is_one_line_that_names_the_path(dipsmith, office, arguments):
    before = sorted(office.iterdir())
    ran = dipsmith(*arguments)
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert "unexpected" not in ran.err
    assert LONG in ran.err or "nowhere" in ran.err
    assert sorted(office.iterdir()) == before
    assert spent(dipsmith) == 0


def test_words_of_a_library_are_not_shown(dipsmith, office, monkeypatch):
    """A library's OSError may quote what it read; only the system's own words may be shown."""

    def fails(path):
        raise OSError(5, "cannot parse 'CANARY7351'")

    monkeypatch.setattr("dipsmith.schema.files.read", fails)
    ran = dipsmith("schema", "check", "people.yaml")
    assert ran.code == 1
    assert "CANARY" not in ran.err


EVIL = "\x1b]0;owned\x07\x9b31m\x08\r\u202e[link=http://evil]x[/link]"
TAMPERING = {*EVIL} - {*"]0;owned31m[link=http://evil]x[/link]"}


def test_no_text_of_others_commands_the_terminal(dipsmith, office):
    """Names of columns, codes, files and keys come from others; escape sequences in them are shown, not sent."""
    field = {"name": f"a{EVIL}", "type": "string", "enum": [f"x{EVIL}", "y"], "other": "y"}
    schema = {"name": "people", "unit": "row", "neighbours": "add-remove", "fields": [field]}
    (office / "evil.yaml").write_text(json.dumps(schema))
    (office / "odd.yaml").write_text(json.dumps({**schema, f"key{EVIL}": 1}))
    asked = ("--method", "mst", "--epsilon", "1", "--rows", "100")
    for words in (
        ("schema", "check", "evil.yaml"),
        ("schema", "check", "evil.yaml", "--json"),
        ("schema", "check", "odd.yaml"),
        ("schema", "check", f"none{EVIL}.yaml"),
        ("plan", "--schema", "evil.yaml", *asked),
        ("plan", "--schema", "evil.yaml", *asked, "--json"),
        ("synthesize", "people.csv", "--schema", "evil.yaml", *asked, "--ledger", "b.db", "--out", "evil"),
        ("verify", f"none{EVIL}"),
        (f"none{EVIL}",),
    ):
        ran = dipsmith(*words)
        assert not TAMPERING & {*ran.out, *ran.err}, words
    told = dipsmith("plan", "--schema", "evil.yaml", *asked, "--json").out
    assert json.dumps(f"a{EVIL}")[1:-1] in json.dumps(json.loads(told))
