"""A release in catalogues and registries.

Croissant 1.1 (MLCommons) is read by data catalogues and loaders. DataCite 4.5, as JSON, is sent when a release gets a DOI;
names that nobody told stay open, as DataCite says. OpenDP keeps a registry of deployments, whose entry is YAML, here of the
third and fullest tier.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.markup import render
from dipsmith.synthesis.labelled_file import program_names
from dipsmith.synthesis.passport.facts import KEY, UNKNOWN, PassportFacts, media_type

VERSION: Final = "http://mlcommons.org/croissant/1.1"
TYPES: Final = {
    "string": "sc:Text",
    "integer": "sc:Integer",
    "number": "sc:Float",
    "boolean": "sc:Boolean",
    "date": "sc:Date",
    "datetime": "sc:DateTime",
}
_TERMS: Final = (
    "citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset jsonPath key md5 "
    "parentField path recordSet references regex repeated replace samplingRate separator source subField transform"
)
CONTEXT: Final = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
}


def croissant(facts: PassportFacts) -> dict[str, Any]:
    """The tables as files with digests, and the columns of each as a set of records."""
    whole = [name for name in facts.tables if "/" not in name]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": facts.title,
        "description": facts.description,
        "conformsTo": VERSION,
        "citeAs": f"{facts.title} (request {facts.card.request}, {facts.day})",
        "datePublished": facts.day,
        "version": "1.0.0",
        "rai:personalSensitiveInformation": facts.card.guarantee,
        "rai:dataManipulationProtocol": f"dipsmith {facts.card.version}, {facts.card.method}",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": f"../{name}",
                "encodingFormat": media_type(name),
                "sha256": facts.digests[name],
            }
            for name in facts.tables
        ],
        "recordSet": [_records(name, facts) for name in whole if name.endswith((".csv", ".parquet"))],
    }


def _records(file: str, facts: PassportFacts) -> dict[str, Any]:
    name = file.rpartition(".")[0]
    schema, key, owner = facts.schema_of(file), facts.key, facts.owner(file)
    told = [] if key is None else [(key, KEY, "integer")]
    told += [(a.name, a.title or a.name, a.type) for a in schema]
    ids = program_names([column for column, _, _ in told], 64)  # the validator takes no spaces in them
    fields: list[dict[str, Any]] = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{ids[column]}",
            "name": column,
            "description": title,
            "dataType": TYPES[kind],
            "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
        }
        for column, title, kind in told
    ]
    records: dict[str, Any] = {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}
    if owner is not None and key is not None:
        fields[0]["references"] = {"field": {"@id": f"{owner.rpartition('.')[0]}/{ids[key]}"}}
    elif facts.schema.members is not None:
        records["key"] = {"@id": fields[0]["@id"]}
    return records


SCHEMA: Final = "http://datacite.org/schema/kernel-4"


def datacite(facts: PassportFacts) -> dict[str, Any]:
    """Everything but who made and publishes it."""
    members = [f"{facts.rows_of(name)} rows in '{name}'" for name in facts.tables if facts.owner(name) is not None]
    return {
        "schemaVersion": SCHEMA,
        "creators": [{"name": UNKNOWN}],
        "titles": [{"title": facts.title}],
        "publisher": {"name": UNKNOWN},
        "publicationYear": facts.day[:4],
        "types": {"resourceType": "Synthetic microdata", "resourceTypeGeneral": "Dataset"},
        "subjects": [{"subject": s} for s in ("differential privacy", "synthetic data")],
        "dates": [{"date": facts.day, "dateType": "Created"}],
        "alternateIdentifiers": [{"alternateIdentifier": facts.card.request, "alternateIdentifierType": "request"}],
        "formats": sorted({media_type(name) for name in facts.tables}),
        "sizes": [f"{facts.card.sets} sets of {facts.card.rows} rows", *members],
        "descriptions": [
            {"description": facts.description, "descriptionType": "Abstract"},
            {"description": f"dipsmith {facts.card.version}, {facts.card.method}", "descriptionType": "Methods"},
        ],
    }


_UNITS = {True: "Event-level", False: "User-level"}


def deployment(facts: PassportFacts) -> str:
    """Everything that a card knows; who publishes it and what for is theirs to write."""
    card = facts.card
    epsilon, delta = card.loss
    pure = card.currency == "epsilon"
    loss: dict[str, Any] = (
        {"epsilon": epsilon} if pure else {"epsilon": epsilon, "delta": delta, "rho": card.budget.units / 1e12}
    )
    mechanisms = list(dict.fromkeys(str(line["mechanism"]) for line in card.spending))
    document = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{card.dataset} {card.method}".lower()).strip("-"),
        "deployment": {
            "basic": {
                "name": facts.title,
                "data_curators": [{"data_curator_name": UNKNOWN, "data_curator_type": UNKNOWN}],
                "description": facts.description,
                "intended_use": _describe_use(facts),
                "data_product_type": "Synthetic data",
                "data_product_region": UNKNOWN,
                "data_product_sector": UNKNOWN,
                "publication_date": facts.day,
            },
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Zero-concentrated DP",
                "data_domain": f"{facts.width} columns; domains: {card.provenance}. codebook.csv lists them.",
                "unprotected_quantities": "; ".join(card.disclosed) or "none",
            },
            "privacy_loss": {
                "privacy_unit": _UNITS[card.unit.get("column") is None],
                "privacy_unit_details": f"{card.unit['text']}; neighbours: {card.neighbours}. {card.meaning}",
                "privacy_parameters": loss,
                "privacy_parameters_details": f"{card.price}; {card.accountant}",
            },
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release" if card.sets == 1 else card.sets_text,
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Values are binned and clipped by the public schema.",
                "mechanisms": "; ".join(mechanisms) or "none",
                "justification": UNKNOWN,
            },
            "administrative": {
                "evidence_sources": {
                    "card": {
                        "evidence_source_type": "Formal publication by the deploying organization",
                        "misc": {"title": "card.html"},
                    }
                },
                "status": "Draft",
                "registry_authors": [UNKNOWN],
                "tier": 3,
            },
        },
    }
    return render(document)


def _describe_use(facts: PassportFacts) -> str:
    planned = [str(PlannedAnalysis.of(a)) for a in facts.card.analyses]
    return f"Planned analyses: {'; '.join(planned)}" if planned else "Analyses of the synthetic rows; none was planned."
