"""What has to be carried for an interval to be honest, and the sentence that says what is not.

Running a mechanism again shows what it does to a relationship that it carries. What it never carried it cannot lose a
second time, and the interval would be confident and wrong. So an interval demands that the release supports every group
of columns that the analysis is computed from (`Release.supports`): the response with each term, and terms with each other,
because what confounds them moves the coefficients as well. In simulations estimates whose pair of response and term was
not measured were never covered, and those whose confounders were not were covered between .09 and 1.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from dataclasses import dataclass

from dipsmith.errors import UsageError
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.suggestion import carries
from dipsmith.synthesis.supports import Support

INSTEAD = "allow_unsupported=True prints the estimate without an interval"


@dataclass(frozen=True)
class Gap:
    """What a release does not carry of an analysis, and what to ask the steward for."""

    asked: str
    reason: str
    ask: str

    @property
    def reason_and_ask(self) -> str:
        """One line for people."""
        ask = f"; {_lower(self.ask)}" if self.ask else ""
        return f"this release cannot tell '{self.asked}': {_lower(self.reason)}{ask}"

    @property
    def sentence(self) -> str:
        """The same, and what can be had instead."""
        return f"{self.reason_and_ask} ({INSTEAD})"


def missing_for(release: Release, *asked: str) -> Gap | None:
    """What an interval for a formula, or for columns together, would need and the release lacks; None where all is there."""
    if not release.models:
        return None  # it cannot be run again either, and says so
    try:
        found = release.supports(*asked)
    except UsageError as unknown:
        if release.measurements:
            raise
        return Gap(", ".join(asked), str(unknown), "")
    if release.results and release.card.neighbours == "label" and not found.public:
        # The mechanism that is run again does not adjust labels, so that it cannot show what adjusting them did.
        reason = (
            "the labels were adjusted to other analyses that were planned, and nothing shows what this did to this one"
        )
        return Gap(found.asked, reason, found.ask or "Ask the steward to plan it too (--analysis)")
    if carries(found):
        return None
    weakest = next((p for p in found.parts if not carries(p)), found)
    told = found if found.level == "not carried" else weakest
    reason = told.reason if told.level == "not carried" or told.in_rows else _not_in_rows(told)
    return Gap(found.asked, reason, found.ask or weakest.ask)


def recurring(release: Release) -> tuple[str, ...]:
    """What readers have to know where one unit has several rows: the release does not tell which."""
    unit = release.model.schema.unit if release.models else release.schema.unit
    if unit.column is None or (unit.max_rows == 1 and unit.per is None):
        return ()
    return (
        f"Rows of one {unit.column} are taken as independent, because the release does not tell which belong together; where "
        "they are alike, intervals are too short.",
    )


def _not_in_rows(found: Support) -> str:
    return f"a noisy table holds {found.asked}, but the synthetic rows follow it badly. {found.reason}"


def _lower(sentence: str) -> str:
    """A sentence as a part of another."""
    text = sentence.strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[:2].istitle() or text[1:2].islower() else text
