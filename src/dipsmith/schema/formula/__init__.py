"""Formulas, read by one parser into a tree that is never run."""

from dipsmith.schema.formula.parser import Formula

__all__ = ["Formula"]
