"""Attacks on our own methods, on neighbouring tables."""
