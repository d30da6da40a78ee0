"""dipsmith: differentially private synthetic tables that a steward can release and a researcher can analyse.

A release is a function of a public schema, a budget and the curator's noisy answers — nothing else
ever sees the private rows. Names are imported when they are first used, so that `import dipsmith`
costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dipsmith.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from dipsmith.confirm.ask import ask as ask
    from dipsmith.confirm.confirm import approve as approve
    from dipsmith.confirm.queue import decline as decline
    from dipsmith.inference.combine import combine as combine
    from dipsmith.inference.fit import fit as fit
    from dipsmith.inference.growth import growth as growth
    from dipsmith.inference.noise_aware import noise_aware as noise_aware
    from dipsmith.inference.weighted_totals import weighted_totals as weighted_totals
    from dipsmith.methods.forest.forest import Forest as Forest
    from dipsmith.methods.graph.aim import AIM as AIM
    from dipsmith.methods.graph.marginals import Marginals as Marginals
    from dipsmith.methods.graph.mst import MST as MST
    from dipsmith.methods.graph.privbayes import PrivBayes as PrivBayes
    from dipsmith.methods.hierarchy.flat import Flat as Flat
    from dipsmith.methods.hierarchy.steps import Steps as Steps
    from dipsmith.methods.hierarchy.universal import Universal as Universal
    from dipsmith.methods.loglinear.loglinear import LogLinear as LogLinear
    from dipsmith.privacy.budget import ZCDP as ZCDP
    from dipsmith.privacy.budget import PureDP as PureDP
    from dipsmith.privacy.ledger import Ledger as Ledger
    from dipsmith.schema import Schema as Schema
    from dipsmith.schema.analysis import PlannedAnalysis as PlannedAnalysis
    from dipsmith.sources import source as source
    from dipsmith.synthesis.column_map import map_columns as map_columns
    from dipsmith.synthesis.drafting import draft_schema as draft_schema
    from dipsmith.synthesis.learn import learn_schema as learn_schema
    from dipsmith.synthesis.measurements import measurements as measurements
    from dipsmith.synthesis.noisy_count import count_where as count_where
    from dipsmith.synthesis.public import plan as plan
    from dipsmith.synthesis.public import public_table as public_table
    from dipsmith.synthesis.release import Release as Release
    from dipsmith.synthesis.synthesize import synthesize as synthesize
    from dipsmith.synthesis.verify import verify as verify
    from dipsmith.utility.compare import compare as compare

_HOMES = {
    "AIM": "dipsmith.methods.graph.aim",
    "AnalysisPlan": "dipsmith.planning.analysis_plan",
    "Flat": "dipsmith.methods.hierarchy.flat",
    "Forest": "dipsmith.methods.forest.forest",
    "Ledger": "dipsmith.privacy.ledger",
    "LogLinear": "dipsmith.methods.loglinear.loglinear",
    "MST": "dipsmith.methods.graph.mst",
    "Marginals": "dipsmith.methods.graph.marginals",
    "PlannedAnalysis": "dipsmith.schema.analysis",
    "PrivBayes": "dipsmith.methods.graph.privbayes",
    "PureDP": "dipsmith.privacy.budget",
    "Release": "dipsmith.synthesis.release",
    "Schema": "dipsmith.schema",
    "Steps": "dipsmith.methods.hierarchy.steps",
    "Universal": "dipsmith.methods.hierarchy.universal",
    "ZCDP": "dipsmith.privacy.budget",
    "approve": "dipsmith.confirm.confirm",
    "ask": "dipsmith.confirm.ask",
    "combine": "dipsmith.inference.combine",
    "compare": "dipsmith.utility.compare",
    "count_where": "dipsmith.synthesis.noisy_count",
    "decline": "dipsmith.confirm.queue",
    "draft_schema": "dipsmith.synthesis.drafting",
    "fit": "dipsmith.inference.fit",
    "growth": "dipsmith.inference.growth",
    "learn_schema": "dipsmith.synthesis.learn",
    "map_columns": "dipsmith.synthesis.column_map",
    "measurements": "dipsmith.synthesis.measurements",
    "noise_aware": "dipsmith.inference.noise_aware",
    "plan": "dipsmith.synthesis.public:plan",
    "public_table": "dipsmith.synthesis.public",
    "source": "dipsmith.sources",
    "synthesize": "dipsmith.synthesis.synthesize",
    "verify": "dipsmith.synthesis.verify",
    "weighted_totals": "dipsmith.inference.weighted_totals",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dipsmith' has no attribute '{name}'")
    module, _, own = _HOMES[name].partition(":")
    return getattr(import_module(module), own or name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
