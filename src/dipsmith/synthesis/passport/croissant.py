"""Croissant 1.1 (MLCommons): what data catalogues and loaders read."""

from __future__ import annotations

from typing import Any, Final

from dipsmith.synthesis.labelled_file import program_names
from dipsmith.synthesis.passport.facts import KEY, PassportFacts, media_type

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
