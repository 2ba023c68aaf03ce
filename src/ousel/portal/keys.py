"""Pages that issue, rotate and revoke the keys of an app.

If a form that issues or rotates a key is sent twice, by a double click or a reload, it issues one
key, and both answers show it.
"""

from collections.abc import Awaitable

from ousel.http.messages import Answer
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField
from ousel.partners.key_service import KeyService, SecondFactorNeeded
from ousel.partners.service import IssuedKey
from ousel.people.event_source import event_source
from ousel.portal.app_editor import OVERLAP_LABELS, AppEditor
from ousel.portal.repeatable_requests import repeatable_request
from ousel.site.cookies import Cookies
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit, require_identity_check


class KeyPages:
    """Serves the keys of a partner's apps."""

    def __init__(
        self,
        pages: PageRenderer,
        keys: KeyService,
        editor: AppEditor,
        clock: Clock,
        cookies: Cookies,
    ) -> None:
        """Change keys with this service; read the session's secret with `cookies`."""
        self._pages = pages
        self._keys = keys
        self._editor = editor
        self._clock = clock
        self._cookies = cookies

    def routes(self) -> list[PageRoute]:
        """Return the routes of keys."""
        base = "/apps/{client_id}/keys"
        return [
            PageRoute(method="POST", path=base, answer=self.issue),
            PageRoute(method="POST", path=f"{base}/{{handle}}/rotate", answer=self.rotate),
            PageRoute(method="GET", path=f"{base}/{{handle}}/revoke", answer=self.ask_to_revoke),
            PageRoute(method="POST", path=f"{base}/{{handle}}/revoke", answer=self.revoke),
        ]

    async def issue(self, visit: Visit) -> Answer:
        """Issue a key, and show it in the answer to this form only."""
        name = visit.form.get("key_name", "")
        self._check_identity(visit, f"issue the key “{name}”")
        issuing = self._keys.issue(
            visit.signed_in.account_id,
            visit.path["client_id"],
            name,
            repeatable_request(visit, self._cookies, name),
            event_source(visit),
        )
        return await self._show_issued(visit, issuing)

    async def rotate(self, visit: Visit) -> Answer:
        """Rotate a key, and show the new one in the answer to this form only."""
        self._check_identity(visit, "rotate a key")
        overlap = visit.form.get("overlap", "")
        if overlap not in OVERLAP_LABELS:
            refusal = InvalidField("Choose how long the old key stays valid.", param="overlap")
            return await self._editor.page(visit, refusal)
        issuing = self._keys.rotate(
            visit.signed_in.account_id,
            visit.path["client_id"],
            visit.path["handle"],
            int(overlap),
            repeatable_request(visit, self._cookies, overlap),
            event_source(visit),
        )
        return await self._show_issued(visit, issuing)

    async def ask_to_revoke(self, visit: Visit) -> Answer:
        """Explain the consequences and ask whether to revoke a key, unless it has already ended."""
        app, key = await self._keys.get(
            visit.signed_in.account_id, visit.path["client_id"], visit.path["handle"]
        )
        if not key.is_valid_at(self._clock()):
            return see_other(f"/apps/{app.id}")
        return self._pages.render("portal/key_revoke.html", visit, app=app, key=key)

    async def revoke(self, visit: Visit) -> Answer:
        """Revoke a key: calls with it are refused from this moment on."""
        change = self._keys.revoke(
            visit.signed_in.account_id,
            visit.path["client_id"],
            visit.path["handle"],
            event_source(visit),
        )
        return await self._editor.apply(visit, change)

    def _check_identity(self, visit: Visit, purpose: str) -> None:
        if self._keys.issues_live_keys:
            require_identity_check(visit, purpose)

    async def _show_issued(self, visit: Visit, issuing: Awaitable[IssuedKey]) -> Answer:
        try:
            issued = await issuing
        except (InvalidField, SecondFactorNeeded) as refusal:
            return await self._editor.page(visit, refusal)
        return await self._editor.page(visit, issued=issued)
