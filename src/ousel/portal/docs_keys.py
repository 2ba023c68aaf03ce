"""Docs keys of the people who are signed in, for the API reference of a sandbox."""

from ousel.docs.docs_keys import DocsKey
from ousel.partners.app_service import AppService
from ousel.partners.key_service import KeyService
from ousel.people.event_source import event_source
from ousel.site.cookies import Cookies
from ousel.site.visits import Visit


class SessionDocsKeys:
    """Finds and issues the docs keys that belong to the session of a visit."""

    def __init__(self, keys: KeyService, apps: AppService, cookies: Cookies) -> None:
        """Read the session's secret with `cookies`; the secret of the key is derived from it."""
        self._keys = keys
        self._apps = apps
        self._cookies = cookies

    async def find(self, visit: Visit) -> DocsKey | None:
        """Return the valid docs key that this session issued last, if there is one."""
        found = await self._keys.find_docs_key(
            visit.signed_in.account_id, self._session_secret(visit)
        )
        if found is None:
            return None
        app, issued = found
        assert issued.key.ends_at is not None
        return DocsKey(issued.secret, app.id, app.name, issued.key.ends_at)

    async def apps(self, visit: Visit) -> dict[str, str]:
        """Return the names of the person's apps by their client ids."""
        apps = await self._apps.list_apps(visit.signed_in.account_id)
        return {app.id: app.name for app in apps}

    async def issue(self, visit: Visit, client_id: str) -> None:
        """Issue a docs key to the person's own app."""
        await self._keys.issue_docs_key(
            visit.signed_in.account_id, client_id, self._session_secret(visit), event_source(visit)
        )

    def _session_secret(self, visit: Visit) -> str:
        secret = self._cookies.session(visit.headers)
        assert secret is not None
        return secret
