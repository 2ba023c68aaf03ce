"""Addresses of an app: its redirect URIs, and the origins whose pages may call for it."""

from ousel.http.messages import Answer
from ousel.partners.app_service import AppService
from ousel.portal.app_editor import AppEditor
from ousel.portal.sign_in import event_source
from ousel.site.visits import PageRoute, Visit


class AddressPages:
    """Serves the redirect URIs and origins of a partner's apps."""

    def __init__(self, apps: AppService, editor: AppEditor) -> None:
        """Change apps with this service."""
        self._apps = apps
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
        uri = visit.form.get("redirect_uri", "").strip()
        change = self._apps.add_redirect_uri(
            visit.signed_in.account_id, visit.path["client_id"], uri, event_source(visit)
        )
        return await self._editor.apply(visit, change)

    async def remove_redirect_uri(self, visit: Visit) -> Answer:
        """Remove a redirect URI."""
        uri = visit.form.get("redirect_uri", "")
        change = self._apps.remove_redirect_uri(
            visit.signed_in.account_id, visit.path["client_id"], uri, event_source(visit)
        )
        return await self._editor.apply(visit, change)

    async def add_origin(self, visit: Visit) -> Answer:
        """Register an origin."""
        origin = visit.form.get("origin", "").strip()
        change = self._apps.add_origin(
            visit.signed_in.account_id, visit.path["client_id"], origin, event_source(visit)
        )
        return await self._editor.apply(visit, change)

    async def remove_origin(self, visit: Visit) -> Answer:
        """Remove an origin."""
        origin = visit.form.get("origin", "")
        change = self._apps.remove_origin(
            visit.signed_in.account_id, visit.path["client_id"], origin, event_source(visit)
        )
        return await self._editor.apply(visit, change)
