"""Neighbouring tables that differ by one awkward row look alike from outside: text, codes, files, shapes."""

import json
import re

import numpy as np
import pytest

SCHEMA = """
name: people
unit: row
neighbours: {neighbours}
fields:
  - {{name: age, type: integer, minimum: 17, maximum: 90, bins: {{width: 10}}}}
  - {{name: pay, type: number, minimum: 0, maximum: 200000, bins: {{round: 50000}}, missing: true}}
  - {{name: sex, type: string, enum: [F, M], other: M}}
  - {{name: hired, type: date, minimum: 1980-01-01, maximum: 2020-12-31, bins: {{width: year}}}}
"""
COMMON = ["34,52000,F,1999-05-01", "51,,M,2003-10-11", "28,71000,F,2015-02-28"]
AWKWARD = {
    "plain": "45,60000,M,2001-01-01",
    "out-of-domain number": "450,60000,M,2001-01-01",
    "new category": "45,60000,nonbinary,2001-01-01",
    "NaN": "45,NaN,M,2001-01-01",
    "infinity": "45,inf,M,2001-01-01",
    "minus infinity": "45,-inf,M,2001-01-01",
    "outlier": "45,1e300,M,2001-01-01",
    "impossible date": "45,60000,M,2001-02-30",
    "far date": "45,60000,M,9999-12-31",
    "text for a number": "forty-five,sixty,M,yesterday",
    "nothing at all": ",,,",
    "formula": "45,60000,=1+1,2001-01-01",
    "very long text": f"45,60000,{'x' * 5000},2001-01-01",
    "unicode": "٤٥,60000,Ж,2001-01-01",
}


def shown(text, folder):
    """What is printed, but for the noisy row count, the folder, and the ledger's head with the time of the run."""
    text = re.sub(r"20\d\d-\S+ [0-9a-f]{64}", "HEAD", text.replace(str(folder), "DIR"))
    return re.sub(r"[\d,]+ rows", "N rows", text)


def observed(dipsmith, folder, rows, neighbours):
    folder.mkdir()
    (folder / "people.yaml").write_text(SCHEMA.format(neighbours=neighbours))
    (folder / "people.csv").write_text("\n".join(["age,pay,sex,hired", *rows]) + "\n")
    ledger = folder / "b.db"
    dipsmith("ledger", "grant", "people", "--ledger", ledger, "--epsilon", "1")
    ran = dipsmith(
        "synthesize", folder / "people.csv", "--schema", folder / "people.yaml", "--method", "flat",
        "--epsilon", "1", "--ledger", ledger, "--out", folder / "out", "--request", "r", "--format", "csv",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    card = json.loads((folder / "out" / "card.json").read_text())
    for changing in ("created", "files", "ledger_head"):
        card.pop(changing)
    if neighbours == "add-remove":
        card.pop("rows")  # a paid, noisy number
    with np.load(folder / "out" / "model-1.npz") as arrays:
        shapes = {name: (arrays[name].shape, str(arrays[name].dtype)) for name in arrays.files}
    facts = json.loads((folder / "out" / "model-1.json").read_text())
    facts["facts"]["table"].pop("total")
    return {
        "exit": ran.code,
        "out": shown(ran.out, folder),
        "err": ran.err,
        "card": card,
        "shapes": shapes,
        "facts": facts,
        "files": sorted(p.name for p in (folder / "out").iterdir()),
        "schema": (folder / "out" / "schema.yaml").read_text(),
        "codebook": (folder / "out" / "codebook.csv").read_text(),
        "header": (folder / "out" / "synthetic-1.csv").read_text().splitlines()[0],
        "ledger": re.sub(r"20\d\d-\S+", "TIME", dipsmith("ledger", "show", "--ledger", ledger).out),
    }


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_awkward_rows_cannot_be_told_from_outside(dipsmith, tmp_path, neighbours):
    worlds = {
        name: observed(dipsmith, tmp_path / f"w{i}", [*COMMON, row], neighbours)
        for i, (name, row) in enumerate(AWKWARD.items())
    }
    if neighbours == "add-remove":
        worlds["one row less"] = observed(dipsmith, tmp_path / "less", COMMON, neighbours)
        worlds["no row at all"] = observed(dipsmith, tmp_path / "none", [], neighbours)
    for name, world in worlds.items():
        for what, seen in world.items():
            assert seen == worlds["plain"][what], f"{name} shows in {what}"
