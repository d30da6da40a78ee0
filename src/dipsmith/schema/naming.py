"""The name of a table: a plain line that means the same wherever it is put.

A table's name goes into a ledger, file names, commands, scripts, pages and figures. Everything that is generated escapes
it there; besides, a name has no sign that means something to a shell, to Python, SQL, YAML, HTML or Markdown at all.
Two spellings that look alike would be two grants: a name is in Unicode's form NFC.
"""

from __future__ import annotations

import unicodedata

from dipsmith.errors import SchemaError

SIGNS = " ._-()&+,"
LONGEST = 100
RULE = (
    f"letters and digits of any script, spaces and any of {' '.join(SIGNS.strip())} on one line of at most {LONGEST} "
    "characters that begins with a letter or digit"
)


def check_name(name: str) -> None:
    """Refuse a name that is more than a plain line.

    >>> check_name("Personnel 2011 (Bund & Länder)")
    >>> check_name('x"; rm -r ~')
    Traceback (most recent call last):
    ...
    dipsmith.errors.SchemaError: name has a '"'; use letters and digits of any script, spaces and any of . _ - ( ) & + , on \
one line of at most 100 characters that begins with a letter or digit
    """
    if not name.strip():
        raise SchemaError("name is empty; give the table a short name")
    odd = next((c for c in name if not _is_plain(c)), None)
    if odd is not None:
        shown = f"'{odd}'" if odd.isprintable() else f"character U+{ord(odd):04X}"
        raise SchemaError(f"name has a {shown}; use {RULE}")
    if len(name) > LONGEST:
        raise SchemaError(f"name has {len(name)} characters; use {RULE}")
    if name != unicodedata.normalize("NFC", name):
        raise SchemaError(f"name has a letter and its mark apart; write them as one (Unicode NFC), and use {RULE}")
    if not _is_word(name[0]) or name != name.strip():
        raise SchemaError(f"name begins or ends with a sign that it may only have inside; use {RULE}")


def plain_name(text: str) -> str:
    """The name that a draft takes from a file: what a name may not have becomes an underscore.

    >>> plain_name("payroll; '2011'")
    'payroll_ _2011_'
    """
    kept = "".join(c if _is_plain(c) else "_" for c in unicodedata.normalize("NFC", text))
    start = next((i for i, c in enumerate(kept) if _is_word(c)), len(kept))
    return kept[start:][:LONGEST].strip() or "table"


def _is_plain(character: str) -> bool:
    return character in SIGNS or _is_word(character) or unicodedata.category(character) in ("Mn", "Mc")


def _is_word(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind[0] == "L" or kind == "Nd"
