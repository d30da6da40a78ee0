"""The page for officials: what is protected and from whom, what ε means as odds, and what may be concluded.

One page, without a formula. The odds are those of Bayes' rule: whoever holds two answers to be equally likely before
the release holds the true one at most e^ε times likelier after it, whatever else he knows. What a test can find out is
its power at a stated rate of false alarms (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from dipsmith.privacy.budget import ZCDP, of_units, rho_to_approx
from dipsmith.privacy.gaussian_profile import concentrated_to_approx
from dipsmith.report.content import Facts, Page, Section
from dipsmith.synthesis.card import DELTA, Card
from dipsmith.synthesis.passport.facts import PassportFacts
from dipsmith.synthesis.spent import Z95, table_noise

FALSE_ALARMS = 0.05
_SECRETS = {
    "add-remove": "whether {unit} is in the table at all, and everything that is said there of it",
    "replace": "what the table says of {unit}; how many there are is public",
    "label": "{columns} of {unit}; the other columns are public and stand in the release as they are",
}


LARGE = 700.0
"""Beyond it an ε says nothing more, and its exponential is no number."""


def chance(epsilon: float) -> int:
    """Of 100, how many bets are won at most by someone who would have won 50.

    >>> chance(1), chance(0.1), chance(20)
    (73, 52, 100)
    """
    return round(100 / (1 + exp(-epsilon)))


def power(epsilon: float, delta: float = 0.0, alarms: float = FALSE_ALARMS) -> float:
    """The share of true cases that any test finds at most, which takes a share `alarms` of the others for true.

    >>> round(power(1.0), 3)
    0.136
    """
    found = min(1.0, exp(min(epsilon, LARGE)) * alarms + delta)
    return min(found, 1 - exp(-epsilon) * (1 - alarms - delta))


def officials_page(facts: PassportFacts) -> Page:
    """The page."""
    card = facts.card
    sections = (
        Section("What is protected, and from whom", _describe_protection(facts)),
        Section("How strong the protection is", _strength(facts)),
        Section("What that is in terms of suppressed cells", _suppression(facts)),
        Section("What was spent on these rows", _describe_spending(facts)),
        Section("What researchers may conclude", _conclusions(facts)),
        Section("Who answers for what", _answering(facts)),
    )
    return Page(
        title=f"For officials: the release of {card.dataset}",
        lead=(
            f"Synthetic rows were released in place of '{card.dataset}'. This page says what that means for the people in it.",
        ),
        sections=sections,
        stamp="NOT PRIVATE: made with a fixed noise seed, for tests only" if card.testing else "",
        footer=f"{card.guarantee}. The card (card.html) has every detail; dipsmith verify checks that nothing was changed.",
    )


def _describe_protection(facts: PassportFacts) -> tuple[Any, ...]:
    card = facts.card
    columns = " and ".join(a.name for a in facts.schema if a.role == "private")
    column = card.unit.get("column")
    unit = "any one row" if column is None else f"any one {_whom(card.unit)}"
    secret = _SECRETS[card.neighbours].format(unit=unit, columns=columns)
    more = f" ({card.unit['text']})" if column is not None else ""
    told = [
        f"Protected is {secret}{more}.",
        "It is protected from everybody who gets the release, whatever else they know, own or can compute, today or later; "
        "also from those who know all the other rows.",
        "It is not protected from those who hold the confidential table.",
    ]
    if card.unit.get("protects") == "person":
        told.insert(1, "What that person changes in the row of its household is protected too: also that there is one.")
    if card.disclosed:
        told.append(f"Not protected, because it counts as public: {', '.join(card.disclosed)}.")
    return tuple(told)


def _whom(unit: Mapping[str, Any]) -> str:
    """Whom the unit's column stands for."""
    if unit.get("members") is None:
        return str(unit["column"])
    return "person who lives in a household" if unit.get("protects") else "household with all of its members"


def _strength(facts: PassportFacts) -> tuple[Any, ...]:
    epsilon, delta = facts.card.loss
    won = chance(epsilon)
    apart = "" if delta == 0 else f" This may fail with a chance of at most 1 in {round(1 / delta):,}."
    found = -int(-100 * power(epsilon, delta) // 1)
    return (
        f"Whoever would bet 50:50 on such a secret before the release can reach at most {won}:{100 - won} after it.{apart}",
        f"A test that wrongly points at 5 of 100 people finds at most {found} of 100 of those whom it seeks.",
        Facts(
            (
                ("The number agreed on", facts.card.price),
                ("A bet of 50:50 becomes at most", f"{won}:{100 - won}"),
                ("A bet of 10:90 becomes at most", _shift_odds(0.1, epsilon)),
                ("A bet of 1:99 becomes at most", _shift_odds(0.01, epsilon)),
            )
        ),
        "These are limits for the cleverest attack on the unluckiest person.",
        *_over_periods(facts),
    )


def _over_periods(facts: PassportFacts) -> tuple[str, ...]:
    """What does not change in time is told by every period that a person is in."""
    card = facts.card
    most = card.person_total
    if most is None:
        return ()
    kind = "epsilon" if card.currency == "epsilon" else "rho"
    whole = of_units(kind, most["units"])
    return (
        f"They are for one {most['per']} of a person. What does not change stands in each: for a person in all "
        f"{most['periods']} the number is {whole}.",
    )


def _shift_odds(prior: float, epsilon: float) -> str:
    odds = prior / (1 - prior) * exp(min(epsilon, LARGE))
    share = 100 * odds / (1 + odds)
    return f"{share:.0f}:{100 - share:.0f}" if share >= 10 else f"{share:.1f}:{100 - share:.1f}"


def _suppression(facts: PassportFacts) -> tuple[Any, ...]:
    noise = [t for t in table_noise(facts.card, facts.schema) if t.sd > 0]
    if not noise:
        return ("No table of counts was measured by itself, so there is no cell to compare with.",)
    least, most = (max(1, round(Z95 * t.sd)) for t in (noise[0], noise[-1]))
    told = f"In the table that was measured best, a count below about {least:,} cannot be told from none"
    rest = "" if most == least else f"; in the roughest one, below about {most:,}"
    return (
        f"{told}{rest}. An office that suppresses small cells would have to hide all cells below that number, in every table.",
        "Unlike suppression it holds for all tables together: nothing can be got back by subtracting one from another.",
    )


def _amount(card: Card, units: int) -> str:
    """ε, or ρ with the (ε, δ) that it implies."""
    budget = of_units("epsilon" if card.currency == "epsilon" else "rho", units)
    if not isinstance(budget, ZCDP):
        return str(budget)
    convert = rho_to_approx if card.gaussian else concentrated_to_approx
    return f"ρ = {budget.rho:.4g} (ε = {convert(budget.rho, DELTA):.3g} at δ = {DELTA:g})"


def _describe_spending(facts: PassportFacts) -> tuple[Any, ...]:
    card = facts.card
    lines = [("This release", card.price)]
    if card.account is not None:
        before = card.account["spent"] - card.units
        lines.append(("Spent before under this name", _amount(card, before) if before > 0 else "nothing"))
        lines.append(("Agreed on in all", _amount(card, card.account["granted"])))
    lines.append(("Confidential looks", f"{card.looks}, logged, not for release"))
    return (Facts(tuple(lines)), "What is spent adds up: the limits above are for this release alone.")


def _conclusions(facts: PassportFacts) -> tuple[Any, ...]:
    card = facts.card
    planned = len(card.results)
    told = [
        f"{planned} planned {'analysis was' if planned == 1 else 'analyses were'} answered with intervals that hold the noise: "
        "they may be cited as findings about the confidential rows."
        if planned
        else "No analysis was planned: findings about the confidential rows need the intervals of 'dipsmith fit'.",
        "Any other regression is answered by 'dipsmith fit' with an honest interval, or refused with the reason.",
        "A single synthetic row is a finding about nobody."
        if card.neighbours != "label"
        else "The public columns of a row are real, its private ones are drawn: of one row they say nothing.",
        "A finding that matters can be put to the confidential rows: the office answers it privately ('dipsmith confirm').",
    ]
    return tuple(told)


def _answering(facts: PassportFacts) -> tuple[Any, ...]:
    states = "; ".join(facts.card.steward_says) or "nothing"
    return (
        f"The software answers for the noise and for the ledger. The office answers for what no software can check: {states}.",
    )
