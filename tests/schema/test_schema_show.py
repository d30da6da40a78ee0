"""How a schema prints, and the labels that a spreadsheet would run."""

from __future__ import annotations

from dipsmith.schema import Attribute, Categories, Schema, Unit
from dipsmith.schema.bins import by_width
from dipsmith.schema.show import describe

SCHEMA = Schema.from_dict(
    {
        "name": "R&D (people)",
        "unit": {"column": "id", "max_rows": 2},
        "neighbours": "add-remove",
        "provenance": "data-derived",
        "fields": [
            {
                "name": "age",
                "type": "integer",
                "minimum": 17,
                "maximum": 90,
                "bins": {"width": 5},
                "role": "public",
            },
            {
                "name": "job",
                "type": "string",
                "enum": ["<b>", "x1", "x2"],
                "collapse": {"map": {"x1": "x", "x2": "x"}},
            },
            {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "missing": True},
        ],
        "rules": [{"never": {"age": {"below": 27}, "job": "x"}}],
    }
)


def test_terminal() -> None:
    assert str(SCHEMA).splitlines() == [
        "Schema 'R&D (people)'",
        "column  type     role     levels  domain",
        "age     integer  public       15  17 to 90 in 15 bins, clipped",
        "job     string   private       2  <b> x, from 3 values, other rows dropped",
        "sex     string   private       3  F M, others to M, or missing",
        "unit: id, at most 2 rows · neighbours: add-remove · 90 cells",
        "never: age below 27 and job x",
        "provenance: data-derived (the domain was read from the rows; releases say so)",
    ]


def test_moments_are_shown_as_people_write_them() -> None:
    days = by_width("datetime", 0.0, 86_400e6 * 2 - 1, 1)
    assert describe(Attribute("t", "datetime", days)) == "1970-01-01 to 1970-01-02 in 2 bins, clipped"
    hours = by_width("datetime", 3_600e6, 3 * 3_600e6, 1)
    assert describe(Attribute("t", "datetime", hours)).startswith("1970-01-01 01:00:00 to 1970-01-01 03:00:00 in 1 bin")


def test_notebook_escapes_everything() -> None:
    html = SCHEMA._repr_html_()
    assert "<b>x" not in html
    assert "R&amp;D (people)" in html
    assert html.count("<tr>") == 4


def test_formula_like_labels() -> None:
    labels = ["=1+1", "+x", "-y", "@z", "\tq", "\rq", "plain", "1-2"]
    schema = Schema(
        "t",
        (
            Attribute("a", "string", Categories.of(labels, other="plain")),
            Attribute("n", "integer", Categories.of(["-1", "1"], other="1")),
            Attribute("b", "integer", by_width("integer", -5, 5, 1)),
        ),
        Unit(),
        "replace",
    )
    assert schema.formula_like() == [("a", label) for label in labels[:6]]
