"""The passport of a release: every form passes its official validator, offline, and says what the card says."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.resources import files
from io import BytesIO
from urllib.response import addinfourl

import numpy as np
import pyarrow as pa
import pytest
import requests
import yaml
from rocrate_validator.models import Severity
from rocrate_validator.services import ValidationSettings, validate
from rocrate_validator.utils.http import HttpRequester

import dipsmith as ds
from dipsmith.errors import DamageError, SchemaError
from dipsmith.schema import Schema
from dipsmith.schema.csvw_eo import from_csvw_eo, to_csvw_eo
from dipsmith.synthesis.passport.officials import chance, power
from dipsmith.synthesis.passport.passport import check_passport
from dipsmith.synthesis.release import read_card, read_schema

FIELDS = [
    {"name": "office", "type": "string", "enum": ["north", "sud, ouest"], "other": "north", "role": "public"},
    {"name": "pay (gross)", "type": "number", "minimum": 0, "maximum": 90.5, "bins": {"count": 3}, "role": "public"},
    {"name": "born", "type": "date", "minimum": "1900-01-01", "maximum": "2020-12-31", "bins": {"count": 3}},
    {"name": "seen", "type": "datetime", "minimum": "2000-01-01", "maximum": "2020-12-31", "bins": {"count": 2}},
    {"name": "ok", "type": "boolean", "title": "All right?", "missing": True},
    {"name": "sex", "type": "string", "enum": ["F", "<M>"], "other": "<M>", "role": "private", "title": "Sex & gender"},
]


def schema_of(neighbours, unit="row"):
    fields = [f for f in FIELDS if neighbours != "label" or "role" in f]
    described = {"name": "people", "unit": unit, "neighbours": neighbours, "fields": fields}
    if neighbours != "label":
        described["rules"] = [{"never": {"sex": "F", "ok": "true"}}]
    return Schema.from_dict(described)


def rows(n=60):
    rng = np.random.default_rng(1)
    columns = {
        "office": rng.choice(["north", "sud, ouest"], n),
        "pay (gross)": rng.uniform(0, 90, n),
        "born": pa.array(rng.integers(-9000, 9000, n).astype(np.int32)).cast(pa.date32()),
        "seen": pa.array(rng.integers(10**15, 15 * 10**14, n)).cast(pa.timestamp("us")),
        "ok": rng.choice([True, False], n),
        "sex": rng.choice(["F", "<M>"], n),
    }
    return pa.table(columns)


def make(folder, neighbours="label", kind="csv", budget=None):
    price = budget or ds.PureDP(1)
    schema = schema_of(neighbours)
    ledger = ds.Ledger(folder / "b.db")
    ledger.grant("people", type(price).of_units(3 * price.units), by="data office")
    method = ds.LogLinear(targets=["sex"]) if neighbours == "label" else ds.MST()
    release = ds.synthesize(rows(), schema, method, budget=price, ledger=ledger, request="request 1")
    return release.save(folder / "release", format=kind)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("passport"), "add-remove", budget=ds.ZCDP("0.1"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    return make(tmp_path_factory.mktemp("labelled"), "label", "parquet")


@pytest.fixture(params=["folder", "labelled"])
def release(request):
    return request.getfixturevalue(request.param)


def read(release, name):
    return json.loads((release / "metadata" / name).read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_croissant(release):
    """By mlcroissant, which refuses what Croissant 1.1 does not allow."""
    import mlcroissant

    found = mlcroissant.Dataset(jsonld=str(release / "metadata" / "croissant.json"))
    assert not found.metadata.ctx.issues.errors
    assert "http://mlcommons.org/croissant/1.1" in found.metadata.conforms_to
    card = read_card(release)
    assert {f.id: f.sha256 for f in found.metadata.distribution} == {
        name: digest for name, digest in card.files.items() if name.startswith("synthetic-")
    }


def test_datacite(release):
    """By the schema that DataCite publishes, in its 4.5 form."""
    from datacite import schema45

    document = read(release, "datacite.json")
    schema45.validator.validate(document)
    assert document["publicationYear"] == read_card(release).created[:4]


def test_csvw(folder):
    """By the csvw package: it reads every value of the files as the type that is stated."""
    from csvw import TableGroup

    group = TableGroup.from_file(folder / "metadata" / "csvw.json")
    table, book = group.tables
    told = list(table)
    assert len(told) == read_card(folder).rows
    assert len(list(book)) == len((folder / "codebook.csv").read_text("utf-8").splitlines()) - 1
    assert {type(r["born"]).__name__ for r in told} <= {"date", "datetime"}


@pytest.mark.slow
def test_ddi(release):
    """No XSD of DDI comes with any package: the structure is checked, against the elements that 2.5 asks for."""
    import xmlschema

    book = ET.parse(release / "metadata" / "ddi.xml").getroot()
    xmlschema.XMLResource(str(release / "metadata" / "ddi.xml"))
    space = {"d": "ddi:codebook:2_5"}
    assert book.tag == "{ddi:codebook:2_5}codeBook"
    assert [child.tag.partition("}")[2] for child in book][:2] == ["docDscr", "stdyDscr"]
    assert book.find("d:stdyDscr/d:citation/d:titlStmt/d:titl", space).text
    schema = read_schema(release)
    assert [v.get("name") for v in book.findall("d:dataDscr/d:var", space)] == list(schema.names)
    labels = [c.text for c in book.findall("d:dataDscr/d:var[@name='sex']/d:catgry/d:catValu", space)]
    assert labels == ["F", "<M>"]


def test_deployment(release):
    """The registry publishes no schema that can be had offline: its sections and the fields of tier 3 are checked."""
    entry = yaml.safe_load((release / "metadata" / "deployment.yaml").read_text("utf-8"))
    told = entry["deployment"]
    assert set(told) == {"basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative"}
    assert re.fullmatch(r"[a-z0-9-]+", entry["url_slug"])
    assert told["administrative"]["tier"] == 3
    card = read_card(release)
    parameters = told["privacy_loss"]["privacy_parameters"]
    assert parameters["epsilon"] > 0
    assert ("delta" in parameters) == (card.currency == "rho")
    assert told["dp_variant"]["unprotected_quantities"] == ("; ".join(card.disclosed) or "none")


@pytest.fixture
def terms_of_crates(monkeypatch):
    """What the validator would fetch: the terms of RO-Crate, from the package `rocrate`; nothing else is answered."""
    response = requests.Response()
    response.status_code = 200
    response.headers["Content-Type"] = "application/ld+json"
    response._content = files("rocrate").joinpath("data/ro-crate.jsonld").read_bytes()

    def fetch(request, *_, **__):
        response.url = getattr(request, "full_url", request)
        assert response.url == "https://w3id.org/ro/crate/1.2/context"
        return response

    def open_url(request, *_, **__):
        return addinfourl(BytesIO(fetch(request).content), response.headers, response.url)

    monkeypatch.setattr("rdflib._networking.urlopen", open_url)
    monkeypatch.setattr(HttpRequester(), "get", fetch, raising=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # those of the validator's libraries
def test_a_crate_passes_its_validator(labelled, terms_of_crates):
    settings = ValidationSettings(
        rocrate_uri=str(labelled), profile_identifier="ro-crate-1.2", requirement_severity=Severity.REQUIRED
    )
    found = validate(settings)
    assert [(issue.check.identifier, issue.message) for issue in found.get_issues()] == []
    assert len(found.executed_checks) > 60


def test_crate(release):
    document = json.loads((release / "ro-crate-metadata.json").read_text("utf-8"))
    graph = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(graph) == len(document["@graph"])
    root = graph["./"]
    assert all(part["@id"] in graph and (release / part["@id"]).is_file() for part in root["hasPart"])
    assert all(v["sha256"] == read_card(release).files[k] for k, v in graph.items() if "sha256" in v)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace", "label"])
@pytest.mark.parametrize("unit", ["row", {"column": "id", "max_rows": 3}])
def test_a_schema_written_as_csvw_eo_reads_back_the_same(neighbours, unit):
    schema = schema_of(neighbours, unit) if neighbours != "replace" else schema_of("add-remove", unit)
    document = json.loads(json.dumps(to_csvw_eo(schema)))
    assert from_csvw_eo(document) == schema
    assert from_csvw_eo(document).digest == schema.digest


def test_a_document_of_others_becomes_a_schema_when_the_rest_is_said():
    document = {
        "@type": "Table",
        "privacyUnit": "id",
        "maxContributions": 2,
        "publicLength": 1000,
        "tableSchema": {
            "columns": [
                {"name": "id", "datatype": "string", "privacyId": True},
                {"name": "age", "datatype": "integer", "minimum": 0, "maximum": 99, "required": True},
                {"name": "island", "datatype": "string", "keyValues": ["A", "B"], "required": False},
            ]
        },
    }
    schema = from_csvw_eo(document, name="penguins", neighbours="add-remove")
    assert schema.unit.column == "id"
    assert schema.unit.max_rows == 2
    assert schema["island"].domain.missing
    with pytest.raises(SchemaError, match="neighbours"):
        from_csvw_eo(document)
    unlisted = {"tableSchema": {"columns": [{"name": "x", "datatype": "string"}]}}
    with pytest.raises(SchemaError, match="keyValues"):
        from_csvw_eo(unlisted, name="x", neighbours="add-remove")


def test_verify_knows_the_passport(release, tmp_path):
    card, schema = read_card(release), read_schema(release)
    assert "metadata/croissant.json" in card.files
    assert "officials.html" in card.files
    check_passport(release, card, schema)
    check_passport(tmp_path, card, schema)  # releases of before have none
    with pytest.raises(DamageError, match="digests"):
        check_passport(release, replace(card, files=dict.fromkeys(card.files, "0" * 64)), schema)
    with pytest.raises(DamageError, match="another schema"):
        check_passport(release, card, replace(schema, name="others"))


def test_the_page_for_officials_says_the_odds_in_words(folder, labelled):
    told = (labelled / "officials.html").read_text("utf-8")
    assert "50:50" in told
    assert "73:27" in told
    assert "sex of any one row" in told
    assert "Spent before under this name" in told
    other = (folder / "officials.html").read_text("utf-8")
    assert "1 in 1,000,000,000" in other
    assert all(sign not in told + other for sign in ("e^", "exp(", "≤"))


def test_odds_and_power_are_limits():
    for epsilon in (0.1, 1.0, 3.0):
        assert abs(chance(epsilon) - 100 * np.exp(epsilon) / (1 + np.exp(epsilon))) <= 0.5
        assert 0.05 < power(epsilon) < min(1, 0.05 * np.exp(epsilon) + 1e-12) + 1e-12
    assert power(50.0) == pytest.approx(1.0)
