"""The API reference: the OpenAPI document, and the same for people to read, offline."""

from typing import Any

import msgspec

from ousel.kernel.settings import Settings
from ousel.web.routes import Answer, Call, NoBody, NoQuery, Route


class Reference:
    """Serves the reference in its three forms."""

    def __init__(self, document: dict[str, Any], settings: Settings) -> None:
        """Serve this OpenAPI document."""
        self._json = msgspec.json.encode(document)
        self._settings = settings

    def routes(self, base: str) -> list[Route]:
        """Return the document's route below the base path."""
        return [
            Route(
                method="GET",
                path=f"{base}/openapi.json",
                handle=self.openapi,
                name="openapi",
                summary="The OpenAPI document",
                access="public",
                in_reference=False,
            ),
        ]

    async def openapi(self, _: Call[NoBody, NoQuery]) -> Answer:
        """Answer the OpenAPI document."""
        return Answer(200, self._json)
