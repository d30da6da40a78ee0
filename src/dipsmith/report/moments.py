"""Moments as people write them; the exact one stands beside, for programs."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00")


def moment_in_words(stamp: str) -> str:
    """A moment to the minute.

    >>> moment_in_words("2026-11-18T22:28:41.056182+00:00")
    '18 November 2026, 22:28 UTC'
    """
    at = datetime.fromisoformat(stamp).astimezone(UTC)
    return f"{day_in_words(stamp)}, {at:%H:%M} UTC"


def short_moment(stamp: str) -> str:
    """The same for a table, whose head says that time is UTC.

    >>> short_moment("2026-11-08T22:28:41+00:00")
    '8 Nov 2026, 22:28'
    """
    at = datetime.fromisoformat(stamp).astimezone(UTC)
    return f"{at.day} {MONTHS[at.month - 1][:3]} {at.year}, {at:%H:%M}"


def day_in_words(stamp: str) -> str:
    """The day of a moment.

    >>> day_in_words("2026-11-18T22:28:41+00:00")
    '18 November 2026'
    """
    at = datetime.fromisoformat(stamp).astimezone(UTC)
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


def mark_moments(html: str) -> str:
    """Escaped text in which every exact moment is written in words, and kept for programs.

    >>> mark_moments("made 2026-11-18T22:28:41+00:00, once")
    'made <time datetime="2026-11-18T22:28:41+00:00">18 November 2026, 22:28 UTC</time>, once'
    >>> mark_moments("2026-99-18T22:28:41+00:00")
    '2026-99-18T22:28:41+00:00'
    """

    def mark(found: re.Match[str]) -> str:
        try:
            words = moment_in_words(found[0])
        except ValueError:
            return found[0]
        return f'<time datetime="{found[0]}">{words}</time>'

    return _STAMP.sub(mark, html)
