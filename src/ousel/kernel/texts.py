"""Texts that people and partners write: which characters they may contain."""

from ousel.kernel.errors import InvalidField


def parse_text(text: str | None, *, param: str) -> str | None:
    """Return the text, or refuse ASCII control characters other than tab and line feed."""
    if text is None or text.isprintable():
        return text
    if any(
        (character < " " and character not in "\t\n") or character == "\x7f" for character in text
    ):
        raise InvalidField(f"{param} must not contain control characters.", param=param)
    return text
