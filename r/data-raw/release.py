"""Make the release that the package's examples, tests and vignette read: 400 simulated employees."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

import dipsmith as ds
from dipsmith.examples import personnel

TARGET = Path(__file__).parents[1] / "inst" / "extdata" / "release"

with TemporaryDirectory() as folder:
    personnel.write(folder, rows_per_year=100)
    described = yaml.safe_load((Path(folder) / "personnel.yaml").read_text())
    described |= {"unit": "row"}
    for field in described["fields"]:
        if field["name"] in ("sex", "race"):
            field["title"] = field["name"].capitalize()
    schema = ds.Schema.from_dict(described)
    ledger = ds.Ledger(Path(folder) / "budget.db")
    ledger.grant("personnel", ds.PureDP(1))
    release = ds.synthesize(
        Path(folder) / "personnel.csv",
        schema,
        ds.LogLinear(targets=["sex", "race"]),
        budget=ds.PureDP(1),
        ledger=ledger,
        analyses=["log(pay) ~ sex"],
        request="example of the R package",
    )
    shutil.rmtree(TARGET, ignore_errors=True)
    release.save(TARGET, format="csv")
