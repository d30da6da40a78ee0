"""Honest inference from a release."""
