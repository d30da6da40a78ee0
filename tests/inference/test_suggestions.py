"""What report.html suggests is answered by `fit`: no method's report names a formula that is then refused."""

import ast
import re
import warnings

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.audit.trial import default_method
from dipsmith.errors import HopelessNoise
from dipsmith.methods.catalogue import METHODS
from dipsmith.schema import Schema

CASES = [(name, relation) for name in sorted(METHODS) for relation in vars(METHODS[name])["relations"]]
FIELDS = [
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 49, "bins": {"width": 2}, "role": "public"},
    {"name": "grade", "type": "string", "enum": ["a", "b", "c"], "other": "a", "role": "public"},
    {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 4}, "role": "public"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
    {"name": "race", "type": "string", "enum": ["A", "B", "C"], "other": "C", "role": "private"},
]
LABELLERS = [("loglinear", "label"), ("forest", "label"), ("mst", "replace")]


def schema_under(relation: str) -> Schema:
    fields = [f if relation == "label" else {k: v for k, v in f.items() if k != "role"} for f in FIELDS]
    return Schema.from_dict({"name": "people", "unit": "row", "neighbours": relation, "fields": fields})


def people(n: int = 2000) -> pa.Table:
    random = np.random.default_rng(1)
    sex, grade, age = random.integers(0, 2, n), random.integers(0, 3, n), random.integers(20, 50, n)
    pay = np.clip(20 + 8 * sex + 6 * grade + 0.3 * age + random.normal(0, 8, n), 0, 99.9)
    race = random.choice(3, n, p=[0.6, 0.3, 0.1])
    texts = {"grade": ("abc", grade), "sex": ("FM", sex), "race": ("ABC", race)}
    return pa.table({"age": age, "pay": pay} | {k: [letters[i] for i in v] for k, (letters, v) in texts.items()})


def answered(name: str, relation: str, budget: str, analyses: tuple[str, ...] = ()) -> str | None:
    """The formula that the report suggests, once `fit` has answered it."""
    method = default_method(name, relation, ("sex", "race"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HopelessNoise)
        release = ds.synthesize(
            people(), schema_under(relation), method, budget=ds.PureDP(budget), analyses=analyses, seed=1, testing=True,
            noise_seed=1,
        )  # fmt: skip
        blocks = release.report_page().sections[-1].blocks
        text = "".join(getattr(block, "text", str(block)) for block in blocks)
        found = re.search(r"ds\.fit\(release, (.+?)\)  ", text)
        if found is None:
            assert "No regression is suggested" in text
            return None
        formula = ast.literal_eval(found[1])
        made = ds.fit(release, formula, replicates=10, seed=1)
    # A level that noise hides may have no interval of its own.
    assert np.isfinite(made.to_arrow().column("std_error").to_numpy()).any()
    return formula


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["0.02", "1"])
@pytest.mark.parametrize(("name", "relation"), CASES)
def test_what_a_report_suggests_is_answered(name, relation, budget):
    answered(name, relation, budget)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), LABELLERS)
def test_a_planned_analysis_is_suggested_where_it_is_told(name, relation):
    assert answered(name, relation, "3", ("pay ~ sex + age",)) == "pay ~ sex + age"
    assert answered(name, relation, "0.005", ("pay ~ sex + age",)) != "pay ~ sex + age"
