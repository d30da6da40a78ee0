"""`dipsmith fit`: coefficients as a table, JSON or CSV; refusals in one line."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.cli.fit import _Foretold

FIELDS = [
    {"name": "x", "type": "integer", "minimum": 0, "maximum": 4, "bins": {"width": 1}, "role": "public"},
    {"name": "y", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 1}, "role": "public"},
    {"name": "s", "type": "string", "enum": ["M", "F"], "other": "M", "role": "private"},
]


@pytest.fixture
def saved(tmp_path):
    def save(method, neighbours, name="release"):
        rng = np.random.default_rng(0)
        s, x = rng.random(800) < 0.5, rng.integers(0, 5, 800)
        y = np.clip(np.round(3 + x / 2 - s + rng.normal(0, 1, 800)), 0, 9).astype(int)
        schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": FIELDS})
        table = pa.table({"x": x, "y": y, "s": np.where(s, "F", "M")})
        release = ds.synthesize(table, schema, method, budget=ds.PureDP(4), testing=True, noise_seed=1)
        return release.save(tmp_path / name)

    return save


@pytest.mark.slow
def test_a_table_json_and_csv_say_the_same(dipsmith, saved):
    folder = saved(ds.Flat(), "replace")
    found = ds.fit(folder, "y ~ s + x", level=0.9)
    plain = dipsmith("fit", folder, "y ~ s + x", "--level", "0.9")
    assert plain.code == 0
    assert plain.out.rstrip("\n") == str(found)
    facts = json.loads(dipsmith("fit", folder, "y ~ s + x", "--level", "0.9", "--json").out)
    assert facts["direct"] is True
    assert facts["level"] == 0.9
    line = next(c for c in facts["coefficients"] if c["term"] == "s[T.F]")
    assert line["low"] == pytest.approx(found["s[T.F]"].low)
    rows = list(csv.DictReader(io.StringIO(dipsmith("fit", folder, "y ~ s + x", "--level", "0.9", "--csv").out)))
    assert [r["term"] for r in rows] == [c["term"] for c in facts["coefficients"]]
    assert float(rows[1]["estimate"]) == pytest.approx(facts["coefficients"][1]["estimate"], rel=1e-9)


@pytest.mark.slow
def test_runs_are_foretold(dipsmith, saved):
    folder = saved(ds.LogLinear(targets=["s"]), "label")
    options = ("--robust", "--replicates", "10", "--seed", "3", "--reference", "s=F")
    ran = dipsmith("fit", folder, "y ~ s + x", *options)
    assert ran.code == 0
    assert "s[T.M]" in ran.out
    assert "the mechanism is run 10 times on the synthetic rows, about" in ran.err
    assert ran.err.count("\n") == 1


def test_what_is_not_carried_is_one_line_and_a_code(dipsmith, saved):
    folder = saved(ds.Marginals(), "replace")
    refused = dipsmith("fit", folder, "y ~ s")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("dipsmith: error: this release cannot tell 'y ~ s'")
    assert refused.err.count("\n") == 1
    assert "(--allow-unsupported prints the estimate" in refused.err
    allowed = dipsmith("fit", folder, "y ~ s", "--allow-unsupported", "--json")
    assert json.loads(allowed.out)["coefficients"][1]["low"] is None
    assert dipsmith("fit", folder, "y ~ s", "--json", "--csv").code == 2
    assert dipsmith("fit", "nowhere", "y ~ s").code == 3
    assert dipsmith("fit", folder, "y ~ s", "--family", "magic").code == 2


def test_the_first_run_tells_how_long_all_will_take(capsys, monkeypatch):
    times = iter([0.0, 10.0, 13.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    seen = []
    progress = _Foretold(50, lambda stage, share: seen.append(share))
    for share in (0.0, 0.02, 0.04):
        progress("running", share)
    assert "about 2 minutes in all" in capsys.readouterr().err  # 50 runs of 3 seconds
    assert seen == [0.0, 0.02, 0.04]
