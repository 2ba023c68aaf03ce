"""Texts that people and partners write: which characters they may contain."""

import re
from typing import Final
from unicodedata import category, decimal

from ousel.kernel.errors import InvalidField

_OTHER_SPACES: Final = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_JOINERS: Final = "\u200c\u200d"  # some scripts need them inside words


def parse_text(text: str | None, characters_max: int, *, param: str) -> str | None:
    """Return the text; refuse a long one, and control characters other than tab and line feed."""
    if text is not None and len(text) > characters_max:
        raise InvalidField(f"{param} must have at most {characters_max} characters.", param=param)
    if text is None or text.isprintable():
        return text
    if any(
        (character < " " and character not in "\t\n") or character == "\x7f" for character in text
    ):
        raise InvalidField(f"{param} must not contain control characters.", param=param)
    return text


def parse_printable_name(text: str, characters_max: int, *, param: str) -> str:
    """Return a name without surrounding space, or raise InvalidField."""
    name = _OTHER_SPACES.sub(" ", text).strip()  # some keyboards type other spaces
    is_printable = all(each.isprintable() or _joins(name, at) for at, each in enumerate(name))
    if not 1 <= len(name) <= characters_max or not is_printable:
        what = param.replace("_", " ")
        raise InvalidField(
            f"The {what} must be 1 to {characters_max} printable characters.", param=param
        )
    return name


def with_ascii_digits(text: str) -> str:
    """Return the text with the decimal digits of all scripts written as 0 to 9."""
    return "".join(str(decimal(each, each)) for each in text)


def isolated(text: str) -> str:
    """Return the text between characters that keep its direction from changing its surroundings.

    Without them, an arrow between two right-to-left names would point the wrong way.
    """
    return f"\u2068{text}\u2069"


def _joins(name: str, at: int) -> bool:
    """Return whether this character joins or separates the letters beside it."""
    return (
        name[at] in _JOINERS
        and 0 < at < len(name) - 1
        and category(name[at - 1])[0] in "LM"  # a letter, or a mark on one
        and category(name[at + 1])[0] == "L"
    )
