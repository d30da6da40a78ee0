"""Readers of data dictionaries: what a steward already has, turned into facts about columns. None reads a private row."""
