"""The two commands: what they print, and that no verdict is told by an exit code."""

import json

import pyarrow.parquet as pq
import pytest
from confirm_tables import schema_of, table_of

import dipsmith as ds
from dipsmith.cli.main import main
from dipsmith.confirm.ask import ask, prospect
from dipsmith.errors import UsageError
from dipsmith.privacy.budget import PureDP
from dipsmith.schema.writing import to_yaml

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A steward's folder with a ledger of ε = 500, and a release of rows with a clear effect."""
    folder = tmp_path_factory.mktemp("confirm")
    schema = schema_of("label")
    pq.write_table(table_of(1500, effect=-0.6), folder / "people.parquet")
    (folder / "people.yaml").write_text(to_yaml(schema), "utf-8")
    ledger = ds.Ledger(folder / "budget.db")
    ledger.grant("people", PureDP(500))
    method = ds.LogLinear(targets=["s"])
    release = ds.synthesize(folder / "people.parquet", schema, method, budget=PureDP(5), ledger=ledger)
    release.save(folder / "release")
    return folder


@pytest.fixture
def dipsmith(place, monkeypatch, capsys):
    """Run a command in the folder; its exit code and what it printed."""
    monkeypatch.chdir(place)

    def run(*words):
        monkeypatch.setattr("sys.argv", ["dipsmith", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def questioned(dipsmith, name, claim, formula="y ~ s + x", *more):
    words = ("ask", "release", "--formula", formula, "--claim", claim, "--epsilon", "20", "--out", f"{name}.yaml")
    code, told = dipsmith(*words, *more)
    assert code == 0, told.err
    return told


def answered(dipsmith, name, *more):
    files = ("--data", "people.parquet", "--schema", "people.yaml", "--ledger", "budget.db", "--out", name)
    return dipsmith("confirm", f"{name}.yaml", *files, *more)


@pytest.mark.parametrize(
    ("name", "claim", "verdict"),
    [
        ("below", "s[F] < 0", "confirmed"),
        ("above", "s[F] > 0", "contradicted"),
        ("there", "s[F] < -0.6", "cannot tell"),
    ],
)
def test_every_verdict_ends_alike(dipsmith, name, claim, verdict):
    """Also where 1,000 parts have too few rows to be fitted: a clear verdict would need 26 votes more than half, of about 70
    that are no defaults, which has probability below 1e-9."""
    parts = ("--parts", "1000") if verdict == "cannot tell" else ()
    questioned(dipsmith, name, claim, "y ~ s + x", "--measure", "poll", *parts)
    code, told = answered(dipsmith, name, "--yes", "--json")
    facts = json.loads(told.out)
    assert code == 0
    assert verdict == facts["verdict"]
    for check in (("--ledger", "budget.db"), ("--public", "budget.db.answers.pub")):
        code, told = dipsmith("verify", name, *check)
        assert code == 0
        assert facts["verdict"] in told.out
        assert f"signed by key {facts['signer'][:16]}… (the steward's, as far as you know it)" in told.out


def test_the_price_is_shown_and_somebody_must_approve_it(dipsmith, place):
    spent = ds.Ledger(place / "budget.db").show("people").spent
    questioned(dipsmith, "price", "s[F] < 0.1", "y ~ s", "--by", "Ann\x1b[31m", "--why", "to know")
    code, told = answered(dipsmith, "price")
    assert code == 2
    assert "nobody is there to approve" in told.err
    assert "By: Ann" in told.out
    assert "\x1b" not in told.out
    assert "Release: " in told.out
    assert not (place / "price").exists()
    assert ds.Ledger(place / "budget.db").show("people").spent == spent


def test_a_question_is_declined_on_record(dipsmith):
    questioned(dipsmith, "no", "s[F] < 0.2")
    code, told = dipsmith("confirm", "no.yaml", "--ledger", "budget.db", "--decline", "not now")
    assert code == 0
    assert "Declined, on record" in told.out
    code, told = dipsmith("confirm", "no.yaml", "--ledger", "budget.db")
    assert code == 2


def test_power_is_shown_from_the_release_alone(dipsmith):
    words = ("ask", "release", "--formula", "y ~ s + x", "--claim", "s[F] < 0", "--epsilon", "0.5", "--power", "--json")
    code, told = dipsmith(*words, "--measure", "poll")
    chances = json.loads(told.out)["power"]["chances"]
    assert code == 0
    assert chances["confirmed"] > 0.9
    assert sum(chances.values()) == pytest.approx(1, abs=1e-3)
    code, told = dipsmith(*words[:-1])
    assert "If the truth is what the release says" in told.out
    code, told = dipsmith(*words[:-2])
    assert code == 2
    assert "--out" in told.err


def test_a_claim_about_a_reference_level_gets_another_reference(place):
    """F comes first in the schema: the claim about F is relative to M."""
    found = ask(place / "release", "y ~ s + g", "s[F] < 0", budget=PureDP(1), measure="poll")
    assert dict(found.reference) == {"s": "M", "g": "a"}
    pair = ask(place / "release", "y ~ g", "g[b] = g[c] within 0.5", budget=PureDP(1))
    assert dict(pair.reference) == {"g": "a"}
    assert prospect(ds.Release.load(place / "release"), pair).expected is not None
    with pytest.raises(UsageError, match="no category"):
        ask(place / "release", "y ~ s", "s[F] < 0", budget=PureDP(1), reference={"x": "1"})


@pytest.mark.parametrize(
    ("claim", "formula", "measure"),
    [
        ("s[F] < 0", "y ~ s + x", "direct"),
        ("x > 0", "y ~ s + x", "poll"),
        ("trend of x over g > 0", "y ~ x", "poll"),
        ("s[F] = release", "y ~ s + x", "poll"),
        ("accuracy within 1 > 0.5", "y ~ s + x + g", "counts"),
        ("residuals", "y ~ x", "counts"),
        ("roc", "s ~ y + x", "counts"),
    ],
)
def test_each_claim_is_asked_by_what_tells_most(place, claim, formula, measure):
    found = ask(place / "release", formula, claim, budget=PureDP(1))
    assert found.measure == measure
    loaded = ds.Release.load(place / "release")
    assert measure == "counts" or prospect(loaded, found).estimate is not None
