"""A letter reads the same as text and as HTML, on a light or a dark screen."""

from html.parser import HTMLParser

from typing_extensions import override

from ousel.emails.letters import changed_letter, confirmation_letter, in_use_letter
from ousel.mail.layout import html_of, text_of
from ousel.mail.rules import Letter

PORTAL = "https://pay.example"
HOSTILE = Letter(
    subject='</title><script>"x"</script>',
    opening=("<b>bold</b> & 'quoted'",),
    code="<1>",
    link=("<i>", 'https://pay.example/?a="&b=<c>'),
    closing=("<style>",),
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.words = ""
        self._skips = False

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._skips = tag in {"style", "title"}
        self.links += [value for name, value in attrs if name == "href"]

    @override
    def handle_endtag(self, tag: str) -> None:
        self._skips = False

    @override
    def handle_data(self, data: str) -> None:
        if not self._skips:
            self.words += f" {data}"


def read(letter: Letter) -> _Reader:
    """Return what a mail program finds in the HTML of a letter."""
    reader = _Reader()
    reader.feed(html_of(letter, PORTAL))
    return reader


def test_both_forms_say_the_same() -> None:
    """Every word of the HTML is in the text, in the same order, with the addresses of its links."""
    for letter in (
        confirmation_letter("ada", "012345", f"{PORTAL}/verify-email?token=ep_1"),
        in_use_letter("ada", PORTAL),
        changed_letter("ada", PORTAL),
    ):
        text, reader = text_of(letter, PORTAL), read(letter)

        words = text.replace(f": {letter.link[1]}" if letter.link else "", "").split()
        assert " ".join(reader.words.split()).split() == words
        assert "@ada" in text
        assert all(link in text for link in reader.links if link)
        assert text.isascii()
        assert max(map(len, text.split("\n"))) < 998  # the limit of SMTP


def test_a_letter_is_readable_in_the_dark_and_loads_nothing() -> None:
    """It says that it knows both schemes, and has colours for each; it has no pictures."""
    html = html_of(confirmation_letter("ada", "012345", f"{PORTAL}/x"), PORTAL)

    assert '<meta name="color-scheme" content="light dark">' in html
    assert "@media (prefers-color-scheme: dark)" in html
    assert not {"img", "script", "link", "iframe"} & set(read(HOSTILE).tags)


def test_whatever_a_letter_says_is_escaped() -> None:
    """No text becomes markup, and no address ends its attribute."""
    reader = read(HOSTILE)

    assert not {"b", "i", "script"} & set(reader.tags)
    assert reader.tags.count("style") == 1
    assert 'https://pay.example/?a="&b=<c>' in reader.links
