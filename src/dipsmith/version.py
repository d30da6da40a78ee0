"""The version, in a place that every room may read."""

VERSION = "0.1.1"
