"""The studio: a steward's page, served on this machine only."""
