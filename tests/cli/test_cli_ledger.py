"""The ledger at the command line: what is protected is fixed, a request gives back its own release, grants are signed."""

import json
import shutil

import pytest

ROWS = "age,sex,hiv\n34,F,no\n51,M,yes\n23,F,no\n"
SCHEMA = """
name: {name}
unit: row
neighbours: label
fields:
  - {{name: age, type: integer, minimum: 17, maximum: 90, bins: {{width: 10}}, role: public}}
  - {{name: sex, type: string, enum: [F, M], other: M, role: {sex}}}
  - {{name: hiv, type: string, enum: ["no", "yes"], other: "no", role: {hiv}}}
"""


def schema(folder, file, name="people", sex="private", hiv="public"):
    (folder / file).write_text(SCHEMA.format(name=name, sex=sex, hiv=hiv), "utf-8")
    return file


@pytest.fixture
def clinic(dipsmith, tmp_path):
    """A table with two columns that may each be private, and a grant."""
    (tmp_path / "people.csv").write_text(ROWS, "utf-8")
    schema(tmp_path, "people.yaml")
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 5).code == 0
    return tmp_path


@pytest.fixture
def run(dipsmith, clinic):
    def synthesize(out, *more, file="people.yaml", data="people.csv", target="sex"):
        return dipsmith(
            *("synthesize", data, "--schema", file, "--method", "loglinear", "--set", f"targets={target}"),
            *("--epsilon", 1, "--ledger", "b.db", "--out", out, *more),
        )

    return synthesize


def spent(dipsmith, name="people"):
    return json.loads(dipsmith("ledger", "show", name, "--ledger", "b.db", "--json").out)["spent"]


# --- what is protected ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_run_with_other_private_columns_is_refused(dipsmith, clinic, run):
    """Sex private and hiv public, then the reverse: both columns would come out exact, for one grant."""
    assert run("one").code == 0
    schema(clinic, "reverse.yaml", sex="public", hiv="private")
    ran = run("two", file="reverse.yaml", target="hiv")
    assert (ran.code, ran.out) == (4, "")
    assert "private column 'sex', got private column 'hiv'" in ran.err
    schema(clinic, "both.yaml", sex="private", hiv="private")
    assert run("two", file="both.yaml").code == 4
    assert not (clinic / "two").exists()
    assert spent(dipsmith) == 1
    assert run("two").code == 0


def test_a_grant_states_the_private_columns(dipsmith, clinic, run):
    schema(clinic, "others.yaml", name="others")
    grant = ("ledger", "grant", "others", "--ledger", "b.db", "--epsilon", 1, "--private")
    granted = dipsmith(*grant, "hiv", "--private", "sex")
    assert granted.code == 0
    assert "private columns 'hiv', 'sex'" in granted.out
    ran = run("one", file="others.yaml")
    assert ran.code == 4
    assert "private columns 'hiv', 'sex', got column 'sex'" in ran.err
    assert dipsmith(*grant, "sex").code == 4


# --- a request that comes back --------------------------------------------------------------------


@pytest.mark.slow
def test_a_replayed_request_never_returns_another_release(dipsmith, clinic, run):
    assert run("one", "--request", "first").code == 0
    assert run("two", "--request", "second").code == 0
    kept = clinic / "kept"
    (clinic / "one").rename(kept)
    shutil.copytree(clinic / "two", clinic / "one")
    ran = run("three", "--request", "first")
    assert (ran.code, ran.out) == (5, "")
    assert "what lies there is not that release" in ran.err
    shutil.rmtree(clinic / "one")
    kept.rename(clinic / "one")
    again = run("three", "--request", "first")
    assert (again.code, "nothing was drawn or charged" in again.out) == (0, True)
    assert spent(dipsmith) == 2


@pytest.mark.parametrize("change", ["edited", "added", "removed", "no card"])
def test_a_replayed_request_never_returns_a_changed_release(dipsmith, clinic, run, change):
    assert run("one", "--request", "first", "--format", "csv").code == 0
    rows = clinic / "one" / "synthetic-1.csv"
    if change == "edited":
        rows.write_text(rows.read_text("utf-8").translate(str.maketrans("FM", "MF")), "utf-8")
    elif change == "added":
        (clinic / "one" / "more.csv").write_text("x\n")
    elif change == "removed":
        (clinic / "one" / "codebook.csv").unlink()
    else:
        (clinic / "one" / "card.json").unlink()
    ran = run("three", "--request", "first")
    assert (ran.code, ran.out) == (5, "")
    assert not (clinic / "three").exists()
    assert spent(dipsmith) == 1


# --- one file under two names ---------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_file_under_another_name_must_be_confirmed(dipsmith, clinic, run):
    assert run("one").code == 0
    schema(clinic, "others.yaml", name="others")
    shutil.copy(clinic / "people.csv", clinic / "copy.csv")
    assert dipsmith("ledger", "grant", "others", "--ledger", "b.db", "--epsilon", 5).code == 0
    ran = run("two", file="others.yaml", data="copy.csv")
    assert (ran.code, ran.out) == (4, "")
    assert "'others' has the same source as 'people'" in ran.err
    assert "--another-grant" in ran.err
    assert spent(dipsmith, "others") == 0
    assert run("two", "--another-grant", file="others.yaml", data="copy.csv").code == 0
    assert "another grant for its source was confirmed" in dipsmith("ledger", "show", "--ledger", "b.db").out


@pytest.mark.slow
def test_a_lost_key_is_a_note(dipsmith, clinic, run):
    assert run("one").code == 0
    assert (clinic / "b.db.key").stat().st_mode & 0o777 == 0o600
    (clinic / "b.db.key").unlink()
    schema(clinic, "others.yaml", name="others")
    assert dipsmith("ledger", "grant", "others", "--ledger", "b.db", "--epsilon", 5).code == 0
    ran = run("two", file="others.yaml")
    assert ran.code == 0
    assert "note: key" in ran.err
    assert "is not the key of earlier runs" in ran.err


# --- heads ----------------------------------------------------------------------------------------


def test_heads_can_be_anchored_elsewhere(dipsmith, clinic, run):
    granted = dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 1)
    line = dipsmith("ledger", "head", "--ledger", "b.db").out
    seq, time, head = line.split()
    assert (seq, len(head), time[:2]) == ("3", 64, "20")
    assert f"ledger head: {line}" in granted.out
    facts = json.loads(dipsmith("ledger", "head", "--ledger", "b.db", "--json").out)
    assert (facts["seq"], facts["time"], facts["head"], len(facts["id"])) == (3, time, head, 32)
    shutil.copy(clinic / "b.db", clinic / "older.db")
    more = json.loads(dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 1, "--json").out)
    both = ("--head", head, "--head", more["head"])
    checked = dipsmith("ledger", "verify", "--ledger", "b.db", *both)
    assert (checked.code, "2 anchored heads found in it" in checked.out) == (0, True)
    gone = dipsmith("ledger", "verify", "--ledger", "older.db", *both)
    assert (gone.code, gone.out) == (5, "")
    assert f"does not contain the anchored head {more['head'][:16]}" in gone.err
    assert dipsmith("ledger", "verify", "--ledger", "b.db", "--head", head[:-1]).code == 2


# --- signed grants --------------------------------------------------------------------------------


def test_granting_and_spending_can_be_separated(dipsmith, tmp_path):
    told = dipsmith("ledger", "keygen", "office")
    assert told.code == 0
    assert (tmp_path / "office.key").stat().st_mode & 0o777 == 0o600
    required = dipsmith("ledger", "require-signature", "--ledger", "b.db", "--public", "office.pub", "--json")
    identity = json.loads(required.out)["id"]
    refused = dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 1)
    assert refused.code == 4
    assert f"--ledger-id {identity}" in refused.err
    sign = ("ledger", "sign", "people", "--epsilon", "1.5", "--why", "pilot", "--ledger-id", identity)
    signed = dipsmith(*sign, "--key", "office.key", "--private", "sex", "--out", "grant.json")
    assert (signed.code, "grant --signed grant.json" in signed.out) == (0, True)
    take = ("ledger", "grant", "--signed", "grant.json", "--ledger", "b.db")
    taken = dipsmith(*take)
    assert taken.code == 0
    assert "signed by" in taken.out
    assert "private column 'sex'" in taken.out
    again = dipsmith(*take)
    assert (again.code, "taken before" in again.err) == (4, True)
    checked = dipsmith("ledger", "verify", "--ledger", "b.db")
    assert (checked.code, "1 signature checked" in checked.out) == (0, True)


@pytest.mark.slow
def test_another_key_needs_a_signature_of_the_one_before(dipsmith, tmp_path):
    for name in ("office", "next"):
        assert dipsmith("ledger", "keygen", name).code == 0
    require = ("ledger", "require-signature", "--ledger", "b.db")
    identity = json.loads(dipsmith(*require, "--public", "office.pub", "--json").out)["id"]
    assert dipsmith(*require, "--public", "next.pub").code == 4
    sign = ("ledger", "sign", "--successor", "next.pub", "--ledger-id", identity)
    assert dipsmith(*sign, "--key", "next.key", "--out", "self.json").code == 0
    assert dipsmith(*require, "--signed", "self.json").code == 4
    assert dipsmith(*sign, "--key", "office.key", "--out", "change.json").code == 0
    assert dipsmith(*require, "--signed", "change.json").code == 0
    grant = ("ledger", "sign", "people", "--epsilon", "1", "--ledger-id", identity, "--key")
    for key, code in (("office", 4), ("next", 0)):
        assert dipsmith(*grant, f"{key}.key", "--out", f"{key}.json").code == 0
        assert dipsmith("ledger", "grant", "--signed", f"{key}.json", "--ledger", "b.db").code == code


@pytest.mark.parametrize(
    "arguments",
    [
        ("grant", "--ledger", "b.db", "--epsilon", "1"),
        ("grant", "people", "--ledger", "b.db", "--signed", "x.json"),
        ("grant", "--ledger", "b.db", "--signed", "x.json", "--epsilon", "1"),
        ("sign", "--ledger-id", "0", "--key", "office.key", "--out", "x.json"),
        (
            "sign",
            "people",
            "--successor",
            "office.pub",
            "--ledger-id",
            "0",
            "--key",
            "office.key",
            "--out",
            "x",
        ),
        ("require-signature", "--ledger", "b.db"),
        ("require-signature", "--ledger", "b.db", "--public", "office.pub", "--signed", "x.json"),
    ],
)
def test_contradictory_options_are_refused(dipsmith, tmp_path, arguments):
    assert dipsmith("ledger", "keygen", "office").code == 0
    ran = dipsmith("ledger", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["office.key", "office.pub"]


def test_slips_of_the_keyboard_in_a_grant(dipsmith, tmp_path):
    """A name that no schema can have is refused; an amount that protects nobody is taken, with a word and a way back."""
    refused = dipsmith("ledger", "grant", "ad ult/..", "--ledger", "b.db", "--epsilon", 1)
    assert (refused.code, refused.out) == (3, "")
    assert "name has a '/'" in refused.err
    assert not (tmp_path / "b.db").exists()
    much = dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", "1e9")
    assert much.code == 0
    assert "protects nobody" in much.err
    assert "dipsmith ledger withdraw people --ledger b.db" in much.err
    assert dipsmith("ledger", "withdraw", "people", "--ledger", "b.db").code == 0
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", 1).err == ""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--neighbours", "label"), "--private sex"),
        (("--neighbours", "replace", "--private", "sex"), "leave it out"),
    ],
)
def test_what_learning_protects_is_said_in_options(dipsmith, clinic, more, told):
    """Under label private columns belong to it, otherwise not; before anything is charged."""
    ran = dipsmith(
        *("schema", "learn", "people.csv", "--epsilon", 1, "--ledger", "b.db", "--unit", "row", "--out", "x.yaml"),
        *more,
    )
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert not (clinic / "x.yaml").exists()


def test_one_column_is_not_counted_as_columns(dipsmith, tmp_path):
    (tmp_path / "one.yaml").write_text(
        "name: one\nunit: row\nneighbours: add-remove\nfields:\n- {name: a, type: boolean}\n", "utf-8"
    )
    assert dipsmith("schema", "check", "one.yaml").out.startswith("one: 1 column, 2 cells, 0 rules\n")
