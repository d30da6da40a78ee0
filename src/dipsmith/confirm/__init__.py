"""Confirming a researcher's result: a question about the confidential rows, answered privately (`docs/tutorials/confirm.md`)."""
