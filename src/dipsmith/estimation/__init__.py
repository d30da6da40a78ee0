"""What several method families share: counts made non-negative and whole, rows drawn, questions answered."""
