"""Assets: the site's own style sheet, scripts and icon, each with an address that names it."""

import hashlib
from importlib.resources import files


class Assets:
    """The static files of the site."""

    def __init__(self) -> None:
        """Read the files once."""
        folder = files("ousel.site") / "static"
        self.files = {file.name: file.read_bytes() for file in folder.iterdir()}
        self._versions = {
            name: hashlib.sha256(content).hexdigest()[:12] for name, content in self.files.items()
        }

    def address(self, name: str) -> str:
        """Return the address of an asset, which changes with its content."""
        return f"/assets/{name}?v={self._versions[name]}"
