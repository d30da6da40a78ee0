"""Comparing synthetic with authentic rows: confidential by nature."""
