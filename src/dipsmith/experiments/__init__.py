"""Factorial studies, resumable."""
