"""What is public: attributes and their domains, the unit of protection, the neighbours, the rules."""

from dipsmith.schema.attribute import Attribute
from dipsmith.schema.cells import Cells, Condition, Conditions, Crossed, Marginal, conditions_of
from dipsmith.schema.codes import Codes
from dipsmith.schema.domain import Bins, Categories, Domain
from dipsmith.schema.drafts import draft
from dipsmith.schema.rules import Rule
from dipsmith.schema.schema import Schema, Unit
from dipsmith.schema.sums import WeightedSums, WeightTotals

__all__ = [
    "Attribute",
    "Bins",
    "Categories",
    "Cells",
    "Codes",
    "Condition",
    "Conditions",
    "Crossed",
    "Domain",
    "Marginal",
    "Rule",
    "Schema",
    "Unit",
    "WeightTotals",
    "WeightedSums",
    "conditions_of",
    "draft",
]
