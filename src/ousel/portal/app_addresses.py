"""Addresses of an app: where Connect may send people back to, and which pages may call."""

from typing import Final

from ousel.database.port import Transaction
from ousel.http.messages import Answer
from ousel.partners import rules, store
from ousel.partners.rules import App
from ousel.portal.app_editor import AppEditor, check_room
from ousel.site.visits import PageRoute, Visit

ADDRESSES_MAX: Final = 50  # of each sort, of one app


class AddressPages:
    """Serves the redirect URIs and origins of a partner's apps."""

    def __init__(self, editor: AppEditor) -> None:
        """Change apps at this desk."""
        self._editor = editor

    def routes(self) -> list[PageRoute]:
        """Return the routes of addresses."""
        handlers = {
            "redirect-uris": self.add_redirect_uri,
            "redirect-uris/remove": self.remove_redirect_uri,
            "origins": self.add_origin,
            "origins/remove": self.remove_origin,
        }
        return [
            PageRoute(method="POST", path=f"/apps/{{client_id}}/{name}", handle=handle)
            for name, handle in handlers.items()
        ]

    async def add_redirect_uri(self, visit: Visit) -> Answer:
        """Register a redirect URI."""

        async def change(transaction: Transaction, app: App) -> None:
            uri = rules.parse_redirect_uri(visit.form.get("redirect_uri", "").strip())
            known = await store.redirect_uris_of(transaction, app)
            if uri not in known:
                check_room(len(known), ADDRESSES_MAX, "redirect URIs", param="redirect_uri")
                await store.add_redirect_uri(transaction, app, uri, self._editor.clock())
                await self._editor.record(transaction, visit, "redirect_uri_added", uri)

        return await self._editor.change(visit, change)

    async def remove_redirect_uri(self, visit: Visit) -> Answer:
        """Remove a redirect URI."""

        async def change(transaction: Transaction, app: App) -> None:
            uri = visit.form.get("redirect_uri", "")
            if uri in await store.redirect_uris_of(transaction, app):
                await store.remove_redirect_uri(transaction, app, uri)
                await self._editor.record(transaction, visit, "redirect_uri_removed", uri)

        return await self._editor.change(visit, change)

    async def add_origin(self, visit: Visit) -> Answer:
        """Register an origin."""

        async def change(transaction: Transaction, app: App) -> None:
            origin = rules.parse_origin(visit.form.get("origin", "").strip())
            known = await store.origins_of(transaction, app)
            if origin not in known:
                check_room(len(known), ADDRESSES_MAX, "origins", param="origin")
                await store.add_origin(transaction, app, origin, self._editor.clock())
                await self._editor.record(transaction, visit, "origin_added", origin)

        return await self._editor.change(visit, change)

    async def remove_origin(self, visit: Visit) -> Answer:
        """Remove an origin."""

        async def change(transaction: Transaction, app: App) -> None:
            origin = visit.form.get("origin", "")
            if origin in await store.origins_of(transaction, app):
                await store.remove_origin(transaction, app, origin)
                await self._editor.record(transaction, visit, "origin_removed", origin)

        return await self._editor.change(visit, change)
