"""Static files, compressed and served from memory; their URLs change with their content."""

import gzip
from collections.abc import Mapping
from typing import Final

import msgspec

from ousel.api.route import Call, NoBody, Route
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound

_CONTENT_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_VARY: Final = (b"vary", b"accept-encoding")
_COMPRESSED: Final = (b"content-encoding", b"gzip")
_CACHE_FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")


class StaticFileQuery(msgspec.Struct, frozen=True):
    """The version in a file's URL."""

    v: str = ""


class StaticFiles:
    """Serves files below `/assets`."""

    def __init__(self, files: Mapping[str, bytes], versions: Mapping[str, str]) -> None:
        """Serve these files by name; their URLs contain these versions."""
        self._files = files
        self._versions = versions
        self._compressed_files = {
            name: gzip.compress(content, mtime=0) for name, content in files.items()
        }

    def routes(self) -> list[Route]:
        """Return the route that serves the files."""
        return [
            Route(
                method="GET",
                path="/assets/{name}",
                endpoint=self.serve,
                name="asset",
                summary="A file of the site",
                access="public",
                query=StaticFileQuery,
                in_reference=False,
            )
        ]

    async def serve(self, call: Call[NoBody, StaticFileQuery]) -> Answer:
        """Return a file."""
        name = call.path["name"]
        if name not in self._files:
            raise NotFound("There is no such file.")
        content_type = _CONTENT_TYPES["." + name.rpartition(".")[2]]
        # During an upgrade, an old server may be asked for the version of a new one.
        is_this_version = call.query.v == self._versions[name]
        headers = (_CACHE_FOREVER, _VARY) if is_this_version else (_VARY,)
        accepted = call.headers.get(b"accept-encoding", b"").replace(b" ", b"").split(b",")
        if b"gzip" not in accepted:
            return Answer(200, self._files[name], content_type, headers)
        content = self._compressed_files[name]
        return Answer(200, content, content_type, (*headers, _COMPRESSED))
