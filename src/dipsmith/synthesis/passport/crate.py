"""RO-Crate 1.2: every file of the folder, what it is and its digest, for archives that keep research objects."""

from __future__ import annotations

from typing import Any, Final

from dipsmith.synthesis.passport.facts import PassportFacts, media_type

FILE: Final = "ro-crate-metadata.json"
"""Where the standard wants it: in the root of the folder."""
SPECIFICATION: Final = "https://w3id.org/ro/crate/1.2"


def crate(facts: PassportFacts) -> dict[str, Any]:
    """The folder as a crate."""
    files = [
        {"@id": name, "@type": "File", "name": name, "encodingFormat": media_type(name), "sha256": digest}
        for name, digest in facts.digests.items()
    ]
    card = {"@id": "card.json", "@type": "File", "name": "card.json", "encodingFormat": "application/json"}
    return {
        "@context": f"{SPECIFICATION}/context",
        "@graph": [
            {"@id": FILE, "@type": "CreativeWork", "conformsTo": {"@id": SPECIFICATION}, "about": {"@id": "./"}},
            {
                "@id": "./",
                "@type": "Dataset",
                "name": facts.title,
                "description": facts.description,
                "datePublished": facts.day,
                "license": {"@id": "#license"},
                "identifier": facts.card.request,
                "hasPart": [{"@id": file["@id"]} for file in (*files, card)],
                "mentions": {"@id": "#made"},
            },
            {
                "@id": "#license",
                "@type": "CreativeWork",
                "name": "Terms of use",
                "description": "Whoever publishes this release states them.",
            },
            {
                "@id": "#made",
                "@type": "CreateAction",
                "name": f"made by {facts.card.method} under differential privacy",
                "description": facts.card.guarantee,
                "instrument": {"@id": "#dipsmith"},
                "result": [{"@id": name} for name in facts.tables],
                "endTime": facts.card.created,
            },
            {
                "@id": "#dipsmith",
                "@type": "SoftwareApplication",
                "name": "dipsmith",
                "version": facts.card.version,
                "softwareVersion": facts.card.version,
                "url": "https://github.com/dipsmith/dipsmith",
            },
            *files,
            card,
        ],
    }
