"""Direct estimates in answer to a question: as good as the rows themselves where noise is small, refused where sums do not tell."""

from dataclasses import replace

import pyarrow as pa
import pytest
from confirm_tables import schema_of, table_of

import dipsmith as ds
from dipsmith.confirm.claim import Between, OneSided
from dipsmith.confirm.confirm import approve, prepare, rehearse
from dipsmith.confirm.direct import judge_estimate
from dipsmith.confirm.question import Inquiry
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import PureDP

QUESTION = Inquiry(
    "people", "0" * 64, "y ~ s + x | g", "s[F] < 0", PureDP(50), measure="direct", reference=(("s", "M"),)
)


def test_with_little_noise_the_estimate_is_that_of_the_rows():
    table = table_of(4000, effect=-0.4)
    found = rehearse(QUESTION, table, schema_of("label"), seed=1)
    expected = ds.fit(table, "y ~ s + x | g", reference={"s": "M"})["s[T.F]"]
    assert found.estimate == pytest.approx(expected.value, abs=0.5 * expected.std_error)
    assert found.verdict == "confirmed"
    assert found.sentence.startswith("Confirmed: s[F] is below 0; posterior above .999; s[F] is estimated at -0.")
    assert found.interval[0] < -0.4 < found.interval[1]


def test_noise_that_hides_the_sums_is_said():
    few = rehearse(replace(QUESTION, budget=PureDP("0.001")), table_of(40), schema_of("label"), seed=1)
    assert few.verdict == "cannot tell"


@pytest.mark.parametrize(
    ("claim", "value", "verdict"),
    [
        (OneSided("a", "<", 0.0), -2.0, "confirmed"),
        (OneSided("a", ">", 0.0), -2.0, "contradicted"),
        (OneSided("a", "<", 0.0), -1.0, "cannot tell"),
        (Between("a", -9.0, 9.0), 0.0, "confirmed"),
        (Between("a", 5.0, 9.0), 0.0, "contradicted"),
        (Between("a", -1.0, 1.0), 0.0, "cannot tell"),
    ],
)
def test_estimates_are_judged_by_their_error(claim, value, verdict):
    assert judge_estimate(claim, value, 1.0).verdict == verdict
    assert judge_estimate(claim, None, float("inf")).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("relation", "changes", "told"),
    [
        ("replace", {}, "neighbours 'label'"),
        ("label", {"claim": "x < 0"}, "no level of a private column"),
        ("label", {"claim": "trend of s[F] over g > 0"}, "no direct estimate"),
        ("label", {"formula": "s ~ x", "family": "logistic", "claim": "x > 0", "reference": ()}, "no direct estimate"),
    ],
)
def test_what_sums_do_not_tell_is_refused(relation, changes, told):
    with pytest.raises(UnsupportedError, match=told):
        prepare(replace(QUESTION, **changes), schema_of(relation))


def test_what_public_columns_cannot_answer_is_refused_before_the_charge(tmp_path):
    """No row has a logarithm of a negative number: known from public columns alone."""
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", PureDP(50))
    question = replace(QUESTION, formula="log(y - 1000) ~ s + x | g")
    with pytest.raises(UsageError, match="no row has all of its public values"):
        approve(question, table_of(40), schema_of("label"), ledger=ledger, out=tmp_path / "answer")
    assert ledger.show("people").runs == ()


def test_where_no_row_counts_the_answer_is_that_nothing_can_be_told(tmp_path):
    """Rows without a unit belong to nobody, which is known when the price is paid."""
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", PureDP(50))
    nobody = table_of(40, units=5).drop(["id"]).append_column("id", pa.nulls(40, pa.string()))
    found = approve(QUESTION, nobody, schema_of("label", unit="id"), ledger=ledger, out=tmp_path / "answer")
    assert found.answer.verdict == "cannot tell"
