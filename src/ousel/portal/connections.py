"""Connections: the apps that can read a person's account."""

from ousel.http.messages import Answer
from ousel.oauth.pages import SCOPE_LABELS
from ousel.oauth.service import ConnectionService
from ousel.people.event_source import event_source
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit


class ConnectionPages:
    """Serves a person's connections."""

    def __init__(self, pages: PageRenderer, connections: ConnectionService) -> None:
        """Read and end connections with this service."""
        self._pages = pages
        self._connections = connections

    def routes(self) -> list[PageRoute]:
        """Return the routes of connections."""
        return [
            PageRoute(method="GET", path="/connections", answer=self.show_all),
            PageRoute(
                method="POST", path="/connections/{client_id}/disconnect", answer=self.disconnect
            ),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show the apps that can read the account."""
        connections = await self._connections.list_all(visit.signed_in.account_id)
        return self._pages.render(
            "portal/connections.html", visit, connections=connections, scope_labels=SCOPE_LABELS
        )

    async def disconnect(self, visit: Visit) -> Answer:
        """End an app's access to the account at once, unless it has already ended."""
        await self._connections.disconnect(
            visit.signed_in.account_id, visit.path["client_id"], event_source(visit)
        )
        return see_other("/connections?done=disconnected")
