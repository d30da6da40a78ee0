"""Planned analyses: what a researcher will ask, measured directly and carried by the synthetic labels."""
