"""Careers: what a panel keeps of people over years, beside rows without careers and beside a flat table."""
