"""Assets: the site's own style sheet, script and icon, each under an address that names it."""

import hashlib
from importlib.resources import files
from typing import Final

import msgspec

from ousel.web.refusals import NotFound
from ousel.web.routes import Answer, Call, NoBody, Route

_KINDS: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")


class AssetQuery(msgspec.Struct, frozen=True):
    """The version in an asset's address, which only serves caches."""

    v: str = ""


class Assets:
    """Serves the files of the assets folder."""

    def __init__(self) -> None:
        """Read the files once."""
        folder = files("ousel.web") / "assets"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir()}
        self._versions = {
            name: hashlib.sha256(content).hexdigest()[:12] for name, content in self._files.items()
        }

    def address(self, name: str) -> str:
        """Return the address of an asset, which changes with its content."""
        return f"/assets/{name}?v={self._versions[name]}"

    def routes(self) -> list[Route]:
        """Return the route that serves them."""
        return [
            Route(
                method="GET",
                path="/assets/{name}",
                handle=self.serve,
                name="asset",
                summary="A file of the site",
                access="public",
                query=AssetQuery,
                in_reference=False,
            )
        ]

    async def serve(self, call: Call[NoBody, AssetQuery]) -> Answer:
        """Answer a file."""
        name = call.path["name"]
        if name not in self._files:
            raise NotFound("There is no such file.")
        kind = _KINDS["." + name.rpartition(".")[2]]
        return Answer(200, self._files[name], kind, (_FOREVER,))
