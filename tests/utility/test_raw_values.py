"""Values as they are: what bins hide, a comparison tells."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.report.content import Facts
from dipsmith.utility.comparison import how_section
from dipsmith.utility.raw_values import RAW_VALUES, _compare, _sentences


def money(bins):
    fields = [
        {"name": "dividends", "type": "integer", "minimum": 0, "maximum": 99_999, "bins": bins},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ]
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})


def rows():
    rng = np.random.default_rng(3)
    paid = np.where(rng.random(3000) < 0.89, 0, np.exp(rng.normal(6.5, 1.2, 3000)))
    return pa.table({"dividends": paid.round().astype(int), "sex": rng.choice(["F", "M"], 3000)})


def compared(bins, tmp_path):
    ledger = ds.Ledger(tmp_path / "b.db")
    release = ds.synthesize(rows(), money(bins), ds.Marginals(), budget=ds.PureDP(50), testing=True, noise_seed=1)
    return ds.compare(rows(), release, ledger=ledger, classifiers=["logistic"], draws=2)


def test_a_smeared_spike_is_told(tmp_path):
    found = compared({"count": 20}, tmp_path)
    (column,) = found.findings[0]["raw_values"]
    assert column.zeros[0] == pytest.approx(0.89, abs=0.02)
    assert column.zeros[1] < 0.01
    assert column.mean[1] > 5 * column.mean[0]
    text = str(RAW_VALUES.blocks(found.findings)[0])
    assert "The mean of dividends moved from" in text
    assert "give that value a bin of its own" in text
    assert any(section.heading == "Values as they are" for section in found.page.sections)
    assert "mean of dividends" in str(found)


def test_bins_that_keep_it_pass(tmp_path):
    found = compared({"edges": [0, 1, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000], "law": "log"}, tmp_path)
    (column,) = found.findings[0]["raw_values"]
    assert column.share_moved < 0.01
    assert column.mean_shift < 0.1
    assert RAW_VALUES.blocks(found.findings)[0] == "No mean, quantile or frequent value moved noticeably."


def test_quantiles_and_last_digits_that_moved_are_told():
    """Means alone would pass: 20,000 rows on both sides, so that chance moves no quantile by .25 standard deviations."""
    rng = np.random.default_rng(5)
    heaped = rng.integers(0, 100, 20_000) * 10
    wide = np.clip(500 + (heaped - 495) * 1.6, 0, 1600).astype(int) + rng.integers(0, 10, 20_000)
    fields = [{"name": "pay", "type": "integer", "minimum": 0, "maximum": 2000, "bins": {"width": 50}}]
    schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    column = _compare("pay", heaped.astype(float), wide.astype(float), schema["pay"].domain)
    assert column.mean_shift < 0.3
    assert column.pattern[0] > 0.8 > column.pattern[1]
    said = " ".join(_sentences({"raw_values": (column,)}))
    assert "95% of the rows have pay up to 950; of the synthetic ones," in said
    assert "The last digits, or hours, of pay are others: 90% would have to change." in said
    same = _compare("pay", heaped[:10_000].astype(float), heaped[10_000:].astype(float), schema["pay"].domain)
    assert not _sentences({"raw_values": (same,)})


def test_hours_of_the_day_are_compared():
    fields = [
        {
            "name": "seen",
            "type": "datetime",
            "minimum": "2011-01-01",
            "maximum": "2011-12-31",
            "bins": {"width": "month"},
        }
    ]
    schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    days = np.arange(15_000, 15_300).repeat(10).astype(float)
    column = _compare("seen", days + 9 / 24, days + np.arange(3000) % 24 / 24, schema["seen"].domain)
    assert column.pattern[0] > 0.9


def test_a_column_of_very_many_levels_is_compared_in_wider_bins(tmp_path):
    """100,000 levels that nobody cut: tables and classifiers of them would need 75 GB."""
    fields = [
        {"name": "code", "type": "integer", "minimum": 0, "maximum": 99_999},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ]
    schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    rng = np.random.default_rng(4)
    table = pa.table({"code": rng.integers(0, 100_000, 800), "sex": rng.choice(["F", "M"], 800)})
    release = ds.synthesize(table, schema, ds.Marginals(), budget=ds.PureDP(50), testing=True, noise_seed=1)
    found = ds.compare(table, release, ledger=ds.Ledger(tmp_path / "b.db"), classifiers=["logistic"], draws=2)
    assert found.widened == ("code",)
    assert found.findings[0]["marginals"][0].mean < 0.5
    assert ("In wider bins", "code: 200 of neighbouring values, but for the values as they are") in [
        fact for block in how_section(found).blocks if isinstance(block, Facts) for fact in block.rows
    ]
