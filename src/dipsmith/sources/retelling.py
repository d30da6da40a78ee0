"""Failures of other libraries, reported in our own words only.

An exception that is raised while another is handled carries that one along (`__context__`), also after ``from None``,
which only keeps it from being printed. A library's message may quote a value, and whoever catches an error can walk
its chain.
"""

from __future__ import annotations

from typing import NoReturn

from dipsmith.errors import DipsmithError


def retell(error: DipsmithError) -> NoReturn:
    """Raise an error of ours in place of the one that is being handled, without carrying that one along.

    >>> try:
    ...     int("a secret")
    ... except ValueError:
    ...     try:
    ...         retell(DipsmithError("not a number"))
    ...     except DipsmithError as told:
    ...         print(told, told.__cause__, told.__context__)
    not a number None None
    """
    try:
        raise error from None
    finally:
        # set by `raise` itself, so it is taken away while the error is already under way
        error.__context__ = None
