"""The columns of a release for other programs.

CSVW, CSV on the Web: the columns of every CSV file of a release (W3C, Metadata Vocabulary for Tabular Data).

DDI-Codebook 2.5, as XML: what data archives read. Columns, their labels and bounds; how the rows were made.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from dipsmith.schema import Attribute, Bins
from dipsmith.schema.bins import as_plain, show
from dipsmith.schema.csvw_eo import TYPES
from dipsmith.synthesis.passport.facts import KEY, UNKNOWN, PassportFacts

CONTEXT: Final = "http://www.w3.org/ns/csvw"
DATATYPES: Final = {**TYPES, "datetime": "datetime"}
_MOMENT: Final = "yyyy-MM-dd HH:mm:ss.SSSSSS"


def csvw(facts: PassportFacts) -> dict[str, Any]:
    """The description of the synthetic tables that are CSV, and of the codebook."""
    tables = [_table(name, facts) for name in facts.tables if name.endswith(".csv")]
    return {
        "@context": [CONTEXT, {"@language": "en"}],
        "dc:title": facts.title,
        "dc:description": facts.description,
        "dc:date": facts.day,
        "tables": [*tables, _codebook()],
    }


def _table(file: str, facts: PassportFacts) -> dict[str, Any]:
    columns = [_column(a, facts) for a in facts.schema_of(file)]
    described: dict[str, Any] = {"columns": columns}
    if facts.key is not None:
        name, owner = quote(facts.key, safe=""), facts.owner(file)
        key = {"name": name, "titles": facts.key, "dc:description": KEY, "datatype": "integer", "required": True}
        columns.insert(0, key)
        if owner is not None:
            there = {"resource": f"../{owner}", "columnReference": [name]}
            described["foreignKeys"] = [{"columnReference": [name], "reference": there}]
        elif facts.schema.members is not None:
            described["primaryKey"] = [name]
    return {"url": f"../{file}", "tableSchema": described}


def _column(attribute: Attribute, facts: PassportFacts) -> dict[str, Any]:
    described: dict[str, Any] = {"name": quote(attribute.name, safe=""), "titles": attribute.name}
    if attribute.title:
        described["dc:description"] = attribute.title
    verbatim = facts.card.neighbours == "label" and attribute.role == "public"
    return described | {
        "datatype": "string" if verbatim else datatype(attribute),
        "required": not attribute.domain.missing and not verbatim,
    }


def datatype(attribute: Attribute) -> Any:
    """The CSVW datatype of a column, with its bounds; values released as they stand may lie outside them."""
    base, domain = DATATYPES[attribute.type], attribute.domain
    if not isinstance(domain, Bins):
        return base
    if attribute.type == "datetime":
        return {"base": base, "format": _MOMENT}
    ends = {key: as_plain(domain.scale, getattr(domain, key)) for key in ("minimum", "maximum")}
    return {"base": base, **ends}


def _codebook() -> dict[str, Any]:
    names = ("column", "code", "label", "lower", "upper", "type", "role", "note", "title")
    columns = [{"name": n, "titles": n, "datatype": "integer" if n == "code" else "string"} for n in names]
    return {"url": "../codebook.csv", "tableSchema": {"columns": columns}}


NAMESPACE: Final = "ddi:codebook:2_5"


def ddi(facts: PassportFacts) -> str:
    """The codebook as the text of an XML document."""
    book = Element("codeBook", {"xmlns": NAMESPACE, "version": "2.5", "xml:lang": "en"})
    citation = SubElement(SubElement(book, "docDscr"), "citation")
    _add_title(citation, f"Codebook: {facts.title}", facts)
    study = SubElement(book, "stdyDscr")
    citation = SubElement(study, "citation")
    _add_title(citation, facts.title, facts)
    about = SubElement(study, "stdyInfo")
    SubElement(about, "abstract").text = _plain(facts.description)
    summary = SubElement(about, "sumDscr")
    SubElement(summary, "anlyUnit").text = _plain(str(facts.card.unit["text"]))
    SubElement(summary, "dataKind").text = "Synthetic microdata"
    method = SubElement(study, "method")
    SubElement(SubElement(method, "dataColl"), "collMode").text = _plain(
        f"drawn by dipsmith {facts.card.version}, {facts.card.method}; {facts.card.sets_text}"
    )
    SubElement(method, "notes").text = _plain(facts.card.guarantee)
    for i, name in enumerate(facts.tables, start=1):
        about = SubElement(SubElement(book, "fileDscr", {"ID": f"F{i}", "URI": f"../{name}"}), "fileTxt")
        SubElement(about, "fileName").text = _plain(name)
        if facts.schema.members is not None:
            kind = SubElement(about, "fileStrc", {"type": "relational"})
            SubElement(kind, "recGrp", {"rectype": facts.schema_of(name).name, "keyvar": "V0"})
        counts = SubElement(about, "dimensns")
        SubElement(counts, "caseQnty").text = str(facts.rows_of(name))
        SubElement(counts, "varQnty").text = str(len(facts.schema_of(name).names) + (facts.key is not None))
    columns = SubElement(book, "dataDscr")
    if facts.key is not None:
        files = " ".join(f"F{i}" for i in range(1, len(facts.tables) + 1))
        key = SubElement(columns, "var", {"ID": "V0", "name": facts.key, "files": files, "intrvl": "discrete"})
        SubElement(key, "labl").text = KEY
        SubElement(key, "varFormat", {"type": "numeric"}).text = "integer"
    number = count(1)
    for schema in facts.schemas:
        files = " ".join(f"F{i}" for i, name in enumerate(facts.tables, start=1) if facts.schema_of(name) is schema)
        for attribute in schema:
            _variable(columns, attribute, f"V{next(number)}", files, facts)
    indent(book, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(book, encoding="unicode") + "\n"


def _add_title(citation: Element, title: str, facts: PassportFacts) -> None:
    SubElement(SubElement(citation, "titlStmt"), "titl").text = _plain(title)
    made = SubElement(citation, "prodStmt")
    SubElement(made, "producer").text = UNKNOWN
    SubElement(made, "prodDate", {"date": facts.day}).text = facts.day
    SubElement(made, "software", {"version": facts.card.version}).text = "dipsmith"


def _variable(columns: Element, attribute: Attribute, name: str, files: str, facts: PassportFacts) -> None:
    domain = attribute.domain
    kind = "contin" if isinstance(domain, Bins) else "discrete"
    column = SubElement(columns, "var", {"ID": name, "name": attribute.name, "files": files, "intrvl": kind})
    SubElement(column, "labl").text = _plain(attribute.title or attribute.name)
    if isinstance(domain, Bins):
        ends = {"min": show(domain.scale, domain.minimum), "max": show(domain.scale, domain.maximum)}
        SubElement(SubElement(column, "valrng"), "range", ends)
    for label in facts.labels(attribute):
        SubElement(SubElement(column, "catgry"), "catValu").text = _plain(label)
    kinds = "character" if attribute.type == "string" else "numeric"
    SubElement(column, "varFormat", {"type": kinds}).text = attribute.type


def _plain(text: str) -> str:
    """A text without the characters that XML does not allow."""
    return "".join(c for c in text if c in "\t\n\r" or (ord(c) >= 32 and ord(c) not in (0xFFFE, 0xFFFF)))
