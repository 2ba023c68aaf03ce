"""The two forms of a letter: plain text, and HTML that is readable on light and dark screens."""

from html import escape
from typing import Final

from ousel.mail.rules import Letter

_STYLE: Final = (
    ":root { color-scheme: light dark; }"
    " body { margin: 0; padding: 24px; background: #ffffff; color: #1b1f24;"
    " font: 16px/1.5 system-ui, sans-serif; }"
    " div { max-width: 34em; margin: 0 auto; }"
    " .code { font: bold 28px/1.3 ui-monospace, monospace; letter-spacing: 0.2em; }"
    " a { color: #0b57a4; }"
    " .end { color: #57606a; font-size: 14px; }"
    " @media (prefers-color-scheme: dark) {"
    " body { background: #14171a; color: #e6e8ea; } a { color: #8ec5ff; } .end { color: #a8b0b8; }"
    " }"
)


def text_of(letter: Letter, portal_url: str) -> str:
    """Return the letter as plain text."""
    parts = list(letter.opening)
    if letter.code is not None:
        parts.append(f"    {letter.code}")
    if letter.link is not None:
        words, address = letter.link
        parts.append(f"{words}: {address}")
    parts += letter.closing
    parts.append(f"Ousel, {portal_url}")
    return "\n\n".join(parts) + "\n"


def html_of(letter: Letter, portal_url: str) -> str:
    """Return the letter as an HTML document without pictures or scripts."""
    parts = [_paragraph(each) for each in letter.opening]
    if letter.code is not None:
        parts.append(f'<p class="code">{escape(letter.code)}</p>')
    if letter.link is not None:
        words, address = letter.link
        parts.append(f'<p><a href="{escape(address)}">{escape(words)}</a></p>')
    parts += [_paragraph(each) for each in letter.closing]
    parts.append(
        f'<p class="end">Ousel, <a href="{escape(portal_url)}">{escape(portal_url)}</a></p>'
    )
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(letter.subject)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<div>\n{body}\n</div>\n</body>\n</html>\n"
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"
