"""Simulated tables with known truth."""
