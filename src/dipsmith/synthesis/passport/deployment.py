"""The entry of a release in the registry of deployments that OpenDP keeps, at its third and fullest tier, as YAML."""

from __future__ import annotations

import re
from typing import Any

from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.markup import render
from dipsmith.synthesis.passport.facts import UNKNOWN, PassportFacts

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
