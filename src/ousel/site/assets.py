"""Assets: the site's style sheet, scripts and icon, with URLs that change with their content."""

import hashlib
from importlib.resources import files


class Assets:
    """The static files of the site."""

    def __init__(self) -> None:
        """Read the files once."""
        folder = files("ousel.site") / "static"
        self.files = {file.name: file.read_bytes() for file in folder.iterdir()}
        self.versions = {
            name: hashlib.sha256(content).hexdigest()[:12] for name, content in self.files.items()
        }

    def url(self, name: str) -> str:
        """Return the URL of an asset, which contains a hash of its content."""
        return f"/assets/{name}?v={self.versions[name]}"
