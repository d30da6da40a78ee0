"""A journal: where a curator records what it is about to answer."""

from __future__ import annotations

from typing import Protocol

from dipsmith.privacy.events import Event


class Journal(Protocol):
    """Where a curator records its events durably: a ledger's reservation."""

    def record(self, *events: Event) -> None:
        """Append the events; they must be durable when this returns."""


class Rehearsal:
    """A journal kept in memory, for rows that need no protection."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, *events: Event) -> None:
        """Remember the events."""
        self.events.extend(events)
