"""What a schema lacks, in the words of the page: the reader of schema files speaks of keys, and nobody sees them here."""

from __future__ import annotations

import re

_WORDS = (
    (r"(the schema: )?'unit' is missing; .*", "whose presence is protected (unit) is not chosen yet"),
    (r"(the schema: )?'neighbours' is missing; .*", "what must not be told apart (neighbours) is not chosen yet"),
    (r"the schema: ", ""),
    (r"'type' is missing((?: \(and in .*?\))?); .*", r"the type is not chosen yet\1"),
    (r"type (\w+) needs 'enum': .*", r"its codes are missing: list them, from the code book"),
    (
        r"type (\w+) needs 'minimum' and 'maximum': .*|type (\w+) needs '(minimum|maximum)': .*",
        "say from which value to which it goes: public bounds, not read from the data",
    ),
    (r"minimum \((.*?)\) is above maximum \((.*?)\)", r"“from” (\1) is above “to” (\2)"),
    (r"minimum: ", "from: "),
    (r"maximum: ", "to: "),
    (r"add bins: \{width: month\} or year", "cut it into bins of width month, or year"),
    (r"bins\.(width|edges|count|round)", r"\1 of the cut"),
)


def in_page_words(said: str) -> str:
    """A complaint about a draft without the keys of schema files; what columns are called stays.

    >>> in_page_words("column 'age': minimum (3) is above maximum (1)")
    "column 'age': “from” (3) is above “to” (1)"
    >>> in_page_words("the schema: 'unit' is missing; it says whose presence is protected: write 'unit: row'")
    'whose presence is protected (unit) is not chosen yet'
    """
    column = re.match(r"column '.*?': ", said)
    start = column.end() if column else 0
    text = said[start:]
    for words, instead in _WORDS:
        text = re.sub(rf"^(?:{words})" if not words.startswith(("add", "bins")) else words, instead, text)
    return said[:start] + text


def in_steward_words(said: str) -> str:
    """What an analyst is to ask the steward for, said to the steward, who reads it here.

    >>> in_steward_words("pay may lie beyond; ask the steward to state the bounds of pay (minimum and maximum, without open)")
    'pay may lie beyond; state the bounds of pay on the Schema page, and that no rows lie beyond them'
    >>> in_steward_words("it may be off; ask the steward for finer bins of pay")
    'it may be off; on the Schema page choose finer bins of pay'
    >>> in_steward_words("noise hides them; ask the steward for a larger budget, or for coarser labels")
    'noise hides them; choose a larger budget, or coarser labels'
    """
    said = said.replace(
        " (minimum and maximum, without open)", " on the Schema page, and that no rows lie beyond them"
    ).replace("ask the steward for finer bins", "on the Schema page choose finer bins")
    return (
        said.replace("ask the steward to ", "").replace("ask the steward for ", "choose ").replace(", or for ", ", or ")
    )
