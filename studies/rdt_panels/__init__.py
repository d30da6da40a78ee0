"""Figures 3 to 14 of the first report on random decision trees, on simulated employees."""
