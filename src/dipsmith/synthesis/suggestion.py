"""A formula to start from: one that the release can answer, or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dipsmith.errors import UsageError
from dipsmith.schema import Attribute, Bins
from dipsmith.schema.formula.tree import quote
from dipsmith.synthesis.answers import carries, supports

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

NUMBERS = ("number", "integer")
MOST_TERMS = 3
MOST_RESPONSES, MOST_TRIED = 4, 12
"""Columns that are tried as response and as terms: every trial costs a moment."""


def suggested_formula(release: Release) -> str | None:
    """A regression that this release answers: a planned one, or a number or share by columns it was measured with."""
    untold = {r.formula for r in release.results if any(c.estimate is None for c in r.coefficients)}
    for result in release.results:
        if result.formula not in untold:
            return result.formula
    if not release.measurements:
        return None
    schema = release.schema
    private_first = sorted(schema, key=lambda a: a.role == "public")
    # Between backticks there is no way to write one.
    named = [a for a in private_first if "`" not in a.name and a.name.isprintable() and a.size > 1]
    for chosen, response in _responses(named):
        terms: list[str] = []
        for other in [a for a in named if a is not chosen][:MOST_TRIED]:
            longer = [*terms, quote(other.name)]
            try:
                found = release.support_index.formula(f"{response} ~ {' + '.join(longer)}")
            except UsageError:
                # A report is made after the charge: what cannot be suggested is left out.
                continue
            if not found.public and carries(found):
                terms = longer
            if len(terms) == MOST_TERMS:
                break
        formula = f"{response} ~ {' + '.join(terms)}"
        if terms and supports(release, formula).level != "not carried":
            return formula
    return None


def _responses(named: list[Attribute]) -> Iterator[tuple[Attribute, str]]:
    """Numbers, the finest first; columns with two levels; comparisons with a level."""
    numbers = [a for a in named if a.type in NUMBERS and isinstance(a.domain, Bins)]
    two = [a for a in named if len(a.labels) == 2 and a not in numbers]
    chosen = [*sorted(numbers, key=lambda a: -a.size), *two]
    found = [(a, quote(a.name)) for a in chosen]
    found += [
        (a, _comparison(a)) for a in named if a not in chosen and a.type == "string" and _can_be_quoted(a.labels[0])
    ]
    yield from found[:MOST_RESPONSES]


def _comparison(attribute: Attribute) -> str:
    label = attribute.labels[0]
    return quote(attribute.name) + (f' == "{label}"' if "'" in label else f" == '{label}'")


def _can_be_quoted(label: str) -> bool:
    """Whether a formula can name the level: it knows quotes, but no escapes."""
    return label.isprintable() and "\\" not in label and not ("'" in label and '"' in label)
