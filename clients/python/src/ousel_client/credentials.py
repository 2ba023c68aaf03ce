"""Secrets: carried to the wire, and shown nowhere else."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """A partner key or a user token; no log, traceback or repr shows its text."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what no header can carry, without repeating it: a transport would."""
        if not is_visible_ascii(self.text):
            raise ValueError(
                "A key or token is visible ASCII without spaces; this one is empty, or has other "
                "characters in it, such as the line end of the file that it was read from."
            )


def is_visible_ascii(text: str) -> bool:
    """Say whether the text is not empty and has visible ASCII characters alone."""
    return bool(text) and all("!" <= character <= "~" for character in text)
