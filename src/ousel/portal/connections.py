"""Connections: the apps that can read one's account, and the way to end that."""

from ousel.database.port import Database, Transaction
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.kernel.clock import Clock
from ousel.oauth import service
from ousel.oauth.pages import SCOPES_IN_WORDS
from ousel.people.audit import record_event
from ousel.portal.sign_in import event_source
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit


class ConnectionPages:
    """Serves a person's connections."""

    def __init__(self, pages: PageRenderer, database: Database, clock: Clock) -> None:
        """Read and end what this database keeps."""
        self._pages = pages
        self._database = database
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the routes of connections."""
        return [
            PageRoute(method="GET", path="/connections", handle=self.show_all),
            PageRoute(
                method="POST", path="/connections/{client_id}/disconnect", handle=self.disconnect
            ),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show the apps that can read the account."""
        account_id = visit.signed_in.account_id
        connections = await self._database.read(
            lambda transaction: service.list_connections(transaction, account_id, self._clock())
        )
        return self._pages.render(
            "portal/connections.html", visit, connections=connections, words=SCOPES_IN_WORDS
        )

    async def disconnect(self, visit: Visit) -> Answer:
        """End what lets an app read the account, at once."""
        account_id = visit.signed_in.account_id
        app_id = visit.path["client_id"]

        async def work(transaction: Transaction) -> None:
            connection = await service.find_connection(
                transaction, account_id, app_id, self._clock()
            )
            if connection is None:
                raise NotFound("This app is not connected to your account.")
            await service.disconnect(transaction, account_id, app_id)
            await record_event(
                transaction,
                account_id,
                "app_disconnected",
                event_source(visit),
                self._clock,
                connection.app_name,
            )

        await self._database.write(work)
        return see_other("/connections?done=disconnected")
