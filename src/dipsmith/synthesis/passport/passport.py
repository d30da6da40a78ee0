"""Writing the passport of a release, and checking one against the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from dipsmith.errors import SchemaError
from dipsmith.report.sections import page
from dipsmith.schema import Schema
from dipsmith.schema.csvw_eo import from_csvw_eo, to_csvw_eo
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.passport import crate
from dipsmith.synthesis.passport.catalogues import croissant, datacite, deployment
from dipsmith.synthesis.passport.codebooks import csvw, ddi
from dipsmith.synthesis.passport.facts import FOLDER, PassportFacts, to_text
from dipsmith.synthesis.passport.officials import officials_page
from dipsmith.synthesis.writing import damage

CROISSANT: Final = f"{FOLDER}/croissant.json"
CSVW_EO: Final = f"{FOLDER}/csvw-eo.json"
OFFICIALS: Final = "officials.html"
ONE_SHEET: Final = (
    "<style>@media print { html { font-size: 62%; } body { font-size: 9pt; line-height: 1.3; } p, dl, section { margin: 0.35em 0; } "
    "h1, h2 { margin: 0.7em 0 0.3em; } @page { margin: 14mm; } } @media (max-width: 30rem) { dl { grid-template-columns: 1fr 1fr; } }</style>"
)
"""Printed, the page fits one sheet; on a phone, names and values share the width."""
README: Final = """# Metadata

The same public facts as on the card, in the forms that others read. Start with ../card.html or ../officials.html.

| file | for |
|---|---|
| croissant.json | data catalogues and loaders (Croissant 1.1) |
| csvw.json | the columns of CSV files (CSV on the Web) |
| csvw-eo.json | public assumptions of differential privacy; `dipsmith schema convert` makes a schema of it |
| datacite.json | a DOI (DataCite 4.5); write in creators and publisher |
| ddi.xml | data archives (DDI-Codebook 2.5); write in the producer |
| deployment.yaml | the OpenDP registry of deployments (tier 3); write in who, where and why |
| ../ro-crate-metadata.json | archives of research objects (RO-Crate 1.2) |
"""


def write_passport(out: Exit, facts: PassportFacts) -> None:
    """Write every form, from the card, the schema and the digests alone."""
    out.folder_of(FOLDER)
    out.text(OFFICIALS, page(officials_page(facts)).replace("</head>", f"{ONE_SHEET}</head>", 1))
    out.text(f"{FOLDER}/README.md", README)
    out.text(CROISSANT, to_text(croissant(facts)))
    out.text(f"{FOLDER}/csvw.json", to_text(csvw(facts)))
    out.text(CSVW_EO, to_text(to_csvw_eo(facts.schema)))
    out.text(f"{FOLDER}/datacite.json", to_text(datacite(facts)))
    out.text(f"{FOLDER}/ddi.xml", ddi(facts))
    out.text(f"{FOLDER}/deployment.yaml", deployment(facts))
    out.text(crate.FILE, to_text(crate.crate(facts)))


def check_passport(folder: Path, card: Card, schema: Schema) -> None:
    """Refuse a passport that tells another schema or other tables than the card; releases of before have none."""
    try:
        if (folder / CSVW_EO).is_file() and from_csvw_eo(json.loads((folder / CSVW_EO).read_text("utf-8"))) != schema:
            raise damage(f"'{CSVW_EO}' describes another schema than schema.yaml")
        if (folder / CROISSANT).is_file():
            told = json.loads((folder / CROISSANT).read_text("utf-8"))["distribution"]
            if any(card.files.get(file["@id"]) != file["sha256"] for file in told):
                raise damage(f"'{CROISSANT}' has other digests than the card")
    except (ValueError, LookupError, TypeError, SchemaError):
        raise damage("the metadata of the release cannot be read") from None
