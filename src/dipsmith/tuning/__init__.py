"""Choosing settings: privately, or free on a public stand-in."""
