"""Regressions of one table: formulas, their columns, least squares and odds."""
