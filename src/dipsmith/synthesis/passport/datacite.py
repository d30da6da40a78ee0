"""DataCite 4.5, as JSON: what is sent when a release gets a DOI. Names that nobody told stay open, as DataCite says."""

from __future__ import annotations

from typing import Any, Final

from dipsmith.synthesis.passport.facts import UNKNOWN, PassportFacts, media_type

SCHEMA: Final = "http://datacite.org/schema/kernel-4"


def datacite(facts: PassportFacts) -> dict[str, Any]:
    """Everything but who made and publishes it."""
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
        "sizes": [f"{facts.card.sets} sets of {facts.card.rows} rows", *_members(facts)],
        "descriptions": [
            {"description": facts.description, "descriptionType": "Abstract"},
            {"description": f"dipsmith {facts.card.version}, {facts.card.method}", "descriptionType": "Methods"},
        ],
    }


def _members(facts: PassportFacts) -> list[str]:
    return [f"{facts.rows_of(name)} rows in '{name}'" for name in facts.tables if facts.owner(name) is not None]
