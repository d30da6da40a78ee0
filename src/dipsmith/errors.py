"""Every error that dipsmith raises on purpose, and the exit code that goes with it.

::

    DipsmithError                exit
    ├── UsageError                  2   contradictory options or arguments
    │   └── UnsupportedError        2   this method, relation or budget do not go together
    │       └── NotCarried          2   a release that cannot say what an analysis asks
    ├── InputError                  3   files, schemas, existing output
    │   ├── SchemaError             3   a schema that cannot be used
    │   ├── SourceError             3   rows that cannot be read
    │   └── OutputError             3   output exists or cannot be written
    ├── BudgetError                 4   missing grant, budget used up, currency or relation refused
    │   └── SameSourceError         4   rows that were charged under another name, until that is confirmed
    ├── DamageError                 5   a ledger or release that fails its own checks
    ├── MissingExtraError           6   an optional library is not installed
    └── RegistryError               6   a package that registers a method, metric or source is missing or broken

    HopelessNoise                   –   a warning: noise will outweigh the rows, said before anything is spent
    UncheckedSupport                –   a warning: nobody can see whether a release carries what a function of one's own asks
    ContradictedRows                –   a warning: noisy counts are far from the stated number of rows
    UnlinkedRows                    –   a warning: rows to label do not say which belong together, and each is drawn by itself
    UnlistedValues                  –   a warning: most values of a public file's column are not on the schema's list
    LostKey                         –   a warning: the ledger cannot recognise the sources of earlier runs

A message is one line. It says what was got, what was expected and what to do, and names the
column. It never echoes a value of a private row: whoever raises an error here decides with that
in mind, and whoever shows one may show it whole.
"""

from __future__ import annotations

from typing import ClassVar


class DipsmithError(Exception):
    """Anything that dipsmith refuses or fails to do, with a message meant for people."""

    exit_code: ClassVar[int] = 1


class UsageError(DipsmithError):
    """Options or arguments that contradict each other."""

    exit_code = 2


class UnsupportedError(UsageError):
    """A combination of method, neighbouring relation and budget that has no proof."""


class NotCarried(UnsupportedError):  # noqa: N818 — what it says of a release, as people say it
    """A relationship that a release does not carry, so that no interval for it would be honest."""


class InputError(DipsmithError):
    """Something given to dipsmith cannot be used."""

    exit_code = 3


class SchemaError(InputError):
    """A schema that is broken or contradicts itself."""


class SourceError(InputError):
    """Rows that cannot be read: encoding, quoting, field count or required columns."""


class OutputError(InputError):
    """Output that exists already or cannot be written."""


class BudgetError(DipsmithError):
    """The ledger refuses: no grant, not enough budget, another currency, relation or unit."""

    exit_code = 4


class SameSourceError(BudgetError):
    """Rows for which another dataset's grant was charged before."""


class DamageError(DipsmithError):
    """A ledger or a release that fails its own checks."""

    exit_code = 5


class MissingExtraError(DipsmithError):
    """An optional library is needed and not installed."""

    exit_code = 6

    @classmethod
    def of(cls, what: str, extra: str) -> MissingExtraError:
        """Say what needs the extra and how to install it.

        >>> print(MissingExtraError.of("Drawing figures", "analysis"))
        Drawing figures needs more libraries: pip install 'dipsmith[analysis]'
        """
        return cls(f"{what} needs more libraries: pip install 'dipsmith[{extra}]'")


class RegistryError(DipsmithError):
    """A method, metric, source or kind of model whose package is missing or broken."""

    exit_code = 6


class HopelessNoise(UserWarning):
    """Noise that will outweigh the rows: said, with a better method, before anything is spent."""


class UncheckedSupport(UserWarning):
    """An estimator of one's own: whether the release carries what it asks cannot be seen."""


class ContradictedRows(UserWarning):
    """A number of rows that was stated as publicly known, and that noisy counts contradict."""


class UnlinkedRows(UserWarning):
    """Rows that do not say which belong together, where labels are shared by the rows of one unit."""


class UnlistedValues(UserWarning):
    """A column of a public file, most of whose values are not on the schema's list."""


class LostKey(UserWarning):
    """The key that seals sources is gone or unreadable: that one file has two grants may go unnoticed."""
