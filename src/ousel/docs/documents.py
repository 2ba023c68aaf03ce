"""The documentation, rendered from Markdown into the site's layout, without scripts or a CDN."""

import base64
import re
import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import msgspec
from markupsafe import escape

from ousel.docs.reference import ApiReference
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

if TYPE_CHECKING:
    from markdown_it.token import Token

CONTENTS: Final = "zensical.toml"
FIRST_DOCUMENT: Final = "/docs"


class Chapter(msgspec.Struct, frozen=True):
    """A group of documents in the table of contents."""

    title: str
    documents: list[tuple[str, str]]  # address and title


class Document(msgspec.Struct, frozen=True):
    """One page of the documentation."""

    title: str
    html: str


class Documents:
    """Serves the documentation."""

    def __init__(self, pages: PageRenderer, reference: ApiReference) -> None:
        """Serve the documents in the table of contents; the first one lists the operations."""
        self._pages = pages
        self._reference = reference
        self._docs, _ = _find_source()
        self.chapters: list[Chapter] = []
        self._sources: dict[str, tuple[str, str]] = {}  # title and path by address
        self._rendered: dict[str, Document] = {}
        for title, entries in _table_of_contents():
            self.chapters.append(Chapter(title, [(_address(path), name) for name, path in entries]))
            self._sources |= {_address(path): (name, path) for name, path in entries}

    def page_routes(self) -> list[PageRoute]:
        """Return the route of each document."""
        return [
            PageRoute(method="GET", path=address, answer=self.show, for_everyone=True)
            for address in self._sources
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show a document."""
        address = visit.url.partition("?")[0]
        if address not in self._rendered:
            self._rendered[address] = self._document(address)
        return self._pages.render(
            "docs/document.html",
            visit,
            document=self._rendered[address],
            chapters=self.chapters,
            operations=self._reference.operations if address == FIRST_DOCUMENT else [],
        )

    def _document(self, address: str) -> Document:
        """Render a document; this happens on its first request, to keep the start fast."""
        if address not in self._sources:
            raise NotFound("There is no such page.")
        title, path = self._sources[address]
        folder = PurePosixPath(path).parent
        return Document(title, _html((self._docs / path).read_text(), folder, self._docs))


def anchor_of(heading: str) -> str:
    """Return the URL fragment of this heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def _find_source() -> tuple[Traversable | Path, Traversable | Path]:
    """Return the folder of documents and the table of contents, installed or in a checkout."""
    installed = files("ousel.docs") / "content"
    if installed.is_dir():
        return installed, installed / CONTENTS
    checkout = Path(__file__).parents[3]
    return checkout / "docs", checkout / CONTENTS


@cache
def _table_of_contents() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the chapters, each with the titles and paths of its documents."""
    _, file = _find_source()
    return [
        (title, [(title, target)] if isinstance(target, str) else _pairs(target))
        for item in tomllib.loads(file.read_text())["project"]["nav"]
        for title, target in item.items()
    ]


def _pairs(items: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [pair for item in items for pair in item.items()]


def _address(path: str) -> str:
    plain = path.removesuffix(".md").removesuffix("index").rstrip("/")
    return f"/docs/{plain}".rstrip("/")


def _html(text: str, folder: PurePosixPath, docs: Traversable | Path) -> str:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("fence", _code_block)
    tokens = markdown.parse(text)
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag != "h1":
            token.attrs["id"] = anchor_of(tokens[index + 1].content)
        for child in token.children or []:
            if child.type == "link_open":
                child.attrs["href"] = _link(str(child.attrs["href"]), folder)
            elif child.type == "image":
                drawing = docs / str(folder) / str(child.attrs["src"])
                child.attrs["src"] = _data_url(drawing.read_bytes())
    _name_number_columns(tokens)
    rendered: str = markdown.renderer.render(tokens, markdown.options, {})
    # A wide table scrolls in its frame, which a keyboard reaches by Tab.
    rendered = rendered.replace("<table", '<div class="scrolls" tabindex="0"><table')
    return rendered.replace("</table>", "</table></div>")


def _name_number_columns(tokens: "list[Token]") -> None:
    """Give each table classes that say which of its columns are aligned to the right.

    The parser writes a style into each cell instead, which the Content-Security-Policy forbids.
    """
    for index, table in enumerate(tokens):
        if table.type == "table_open":
            head = takewhile(lambda token: token.type != "thead_close", tokens[index:])
            columns = [token.attrs for token in head if token.type == "th_open"]
            numbers = [
                f"number{column}"
                for column, attributes in enumerate(columns, start=1)
                if attributes.get("style") == "text-align:right"
            ]
            table.attrs["class"] = " ".join(["table", *numbers])
    for token in tokens:
        token.attrs.pop("style", None)


def _data_url(drawing: bytes) -> str:
    """Return a drawing as a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(drawing).decode()}"


def _link(target: str, folder: PurePosixPath) -> str:
    """Return a link between documents as a path on the site."""
    path, hash_sign, anchor = target.partition("#")
    if "://" in target or not path.endswith(".md"):
        return target
    parts: list[str] = []
    for part in (folder / path).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return f"{_address('/'.join(parts))}{hash_sign}{anchor}"


def _code_block(
    _renderer: Any, tokens: "list[Token]", index: int, _options: Any, _environment: Any
) -> str:
    """Return a block of code that a keyboard can scroll."""
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'
