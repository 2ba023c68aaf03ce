"""Addresses of an app: its redirect URIs, and the origins whose pages may call the API."""

from functools import partial

from ousel.http.messages import Answer
from ousel.partners.app_service import ORIGIN, REDIRECT_URI, AddressKind, AppService
from ousel.people.event_source import event_source
from ousel.portal.app_editor import AppEditor
from ousel.site.visits import PageRoute, Visit


class AddressPages:
    """Serves the redirect URIs and origins of a partner's apps."""

    def __init__(self, apps: AppService, editor: AppEditor) -> None:
        """Change apps with this service."""
        self._apps = apps
        self._editor = editor

    def routes(self) -> list[PageRoute]:
        """Return the routes that add and remove addresses."""
        answers = {
            "redirect-uris": partial(self.add, REDIRECT_URI),
            "redirect-uris/remove": partial(self.remove, REDIRECT_URI),
            "origins": partial(self.add, ORIGIN),
            "origins/remove": partial(self.remove, ORIGIN),
        }
        return [
            PageRoute(method="POST", path=f"/apps/{{client_id}}/{name}", answer=answer)
            for name, answer in answers.items()
        ]

    async def add(self, kind: AddressKind, visit: Visit) -> Answer:
        """Register a redirect URI or an origin."""
        text = visit.form.get(kind.field, "").strip()
        app_id = visit.path["client_id"]
        source = event_source(visit)
        change = self._apps.add_address(visit.signed_in.account_id, app_id, kind, text, source)
        return await self._editor.apply(visit, change)

    async def remove(self, kind: AddressKind, visit: Visit) -> Answer:
        """Remove a redirect URI or an origin."""
        address = visit.form.get(kind.field, "")
        app_id = visit.path["client_id"]
        source = event_source(visit)
        change = self._apps.remove_address(
            visit.signed_in.account_id, app_id, kind, address, source
        )
        return await self._editor.apply(visit, change)
