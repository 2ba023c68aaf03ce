"""Secrets are sent to the server and shown nowhere else."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """A partner key or a user token. No log, traceback or repr shows its text."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a text that is not valid in a header: the HTTP library's error would show it."""
        if not is_visible_ascii(self.text):
            raise ValueError(
                "A key or token must be visible ASCII without spaces. This one is empty, or has"
                " other characters, such as the line end of the file it was read from."
            )


def is_visible_ascii(text: str) -> bool:
    """Return whether the text is not empty and contains only visible ASCII characters."""
    return bool(text) and all("!" <= character <= "~" for character in text)
