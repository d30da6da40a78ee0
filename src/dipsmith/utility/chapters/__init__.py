"""The chapters of a comparison, each with the metrics that it shows."""
