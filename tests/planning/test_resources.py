"""The plan's estimate of memory and time, against processes that do what was planned."""

import subprocess
import sys

import pyarrow as pa
import pytest

from dipsmith.examples import personnel, voters
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.forest.forest_plan import LEAF_SECONDS
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.hierarchy.flat import Flat
from dipsmith.methods.hierarchy.steps import Steps
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.methods.method import PublicFacts
from dipsmith.planning.plan import plan
from dipsmith.privacy.budget import PureDP
from dipsmith.schema import Schema
from dipsmith.synthesis.synthesize import synthesize

RUN = r"""
import re, sys
from pathlib import Path
import dipsmith as ds
from dipsmith.examples import personnel, voters
{rows}
release = ds.synthesize(table, schema, {method}, budget=ds.PureDP(1), testing=True, noise_seed=1)
release.save(sys.argv[1])
# ru_maxrss would remember the process that started this one
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024)
"""
PEOPLE = "table, schema = personnel.simulate(10_000)[0], personnel.schema()"
VOTERS = "table, schema = voters.simulate(), voters.schema()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "method", "schema", "facts"),
    [
        (
            PEOPLE,
            LogLinear(targets=["sex", "race"], interactions=0),
            personnel.schema(),
            PublicFacts(rows=40_000),
        ),
        pytest.param(
            VOTERS,
            Steps(layers=2, same_order=True),
            voters.schema(),
            PublicFacts(rows=voters.PEOPLE),
            marks=pytest.mark.crowd,
        ),
    ],
    ids=["labels", "1.3 million cells"],
)
def test_memory_is_foreseen_within_a_factor_of_two(rows, method, schema, facts, tmp_path):
    foreseen = plan(schema, method, PureDP(1), public=facts).resources.memory
    words = repr(method).replace("LogLinear", "ds.LogLinear").replace("Steps", "ds.Steps")
    ran = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            RUN.format(rows=rows, method=words),
            str(tmp_path / "release"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    measured = int(ran.stdout)
    assert 0.5 < measured / foreseen < 2


def test_leaves_of_a_wide_column_are_foreseen():
    """A column of 20,000 levels that nobody cut: what trees will hold, against those of a run."""
    wide = Schema.from_dict(
        {
            "name": "wide",
            "unit": "row",
            "neighbours": "replace",
            "fields": [
                {"name": "amount", "type": "integer", "minimum": 0, "maximum": 19_999},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
                {"name": "grade", "type": "integer", "minimum": 1, "maximum": 5},
            ],
        }
    )
    table = pa.table(
        {"amount": [i * 7 % 20_000 for i in range(4000)], "sex": ["F", "M"] * 2000, "grade": [1, 2, 3, 4] * 1000}
    )
    forest = Forest()
    known, seen = (plan(wide, forest, PureDP(1), public=PublicFacts(rows=n)).resources for n in (None, 4000))
    foreseen = (seen.parts["fitting"] - known.parts["fitting"]) / LEAF_SECONDS
    release = synthesize(table, wide, forest, budget=PureDP(1), testing=True, noise_seed=1)
    held = sum(tree.p.size for block in release.model.inner.blocks for e in block.ensembles for tree in e.trees)
    assert 20_000 * 5 < held < 10**7
    assert 2 / 3 < held / foreseen < 1.5


def test_parts_add_up_and_grow_with_what_they_depend_on():
    def took(method, schema, rows, sets=1):
        each = "draw" if sets > 1 else None
        return plan(schema, method, PureDP(1), public=PublicFacts(rows=rows), sets=sets, each=each).resources

    small, large = (took(Flat(), voters.schema(), n) for n in (1_000, 1_000_000))
    assert small.seconds == pytest.approx(sum(small.parts.values()))
    assert took(MST(), voters.schema(), 1_000_000).memory > took(MST(), voters.schema(), 1_000).memory
    assert large.parts["reading"] == pytest.approx(1000 * small.parts["reading"])
    assert took(Flat(), voters.schema(), 1_000, sets=5).parts["drawing"] == pytest.approx(5 * small.parts["drawing"])
    assert took(Steps(layers=2), voters.schema(), 1_000).memory > took(Steps(layers=1), voters.schema(), 1_000).memory
    labels = [took(LogLinear(targets=t), personnel.schema(), 10_000) for t in (["sex"], ["sex", "race"])]
    assert labels[0].parts["fitting"] < labels[1].parts["fitting"]
