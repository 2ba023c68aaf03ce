"""The consent page: an app asks, and a person allows or denies."""

from typing import Final
from urllib.parse import quote, quote_from_bytes

import msgspec

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.http.messages import Answer
from ousel.kernel.clock import Clock
from ousel.kernel.settings import Settings
from ousel.ledger.rules import Account
from ousel.oauth import rules, service
from ousel.oauth.connect import (
    ConnectRequest,
    ErrorRedirect,
    connect_request,
    issue_code,
    redirect_with_code,
    redirect_with_denial,
)
from ousel.oauth.service import Connection
from ousel.people.audit import EventSource, record_event
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

SCOPES_IN_WORDS: Final = {
    "profile": "Your profile: name, username, account number, email, and when you joined",
    "balance": "Your balance",
}


class _Question(msgspec.Struct, frozen=True):
    request: ConnectRequest
    owner: Account
    connection: Connection | None


class ConnectPages:
    """Serves people whom an app has sent here."""

    def __init__(
        self, pages: PageRenderer, database: Database, settings: Settings, clock: Clock
    ) -> None:
        """Keep what people allow in this database."""
        self._pages = pages
        self._database = database
        self._issuer = settings.portal_url
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the page's routes. A wrong address is told before anyone has to sign in."""
        return [
            PageRoute(
                method="GET",
                path="/connect",
                handle=self.ask,
                for_everyone=True,
                reads_query_itself=True,
            ),
            PageRoute(
                method="POST",
                path="/connect",
                handle=self.decide,
                for_everyone=True,
                reads_query_itself=True,
            ),
        ]

    async def ask(self, visit: Visit) -> Answer:
        """Ask the person, or send the app's mistake back to it."""

        async def read(transaction: Transaction) -> _Question | ErrorRedirect:
            request = await connect_request(transaction, _query_of(visit), self._issuer)
            if isinstance(request, ErrorRedirect):
                return request
            owner = await accounts.account_by_id(transaction, request.app.account_id)
            if visit.person is None:
                return _Question(request, owner, None)
            connection = await service.find_connection(
                transaction, visit.person.account_id, request.app.id, self._clock()
            )
            return _Question(request, owner, connection)

        question = await self._database.read(read)
        if isinstance(question, ErrorRedirect):
            return see_other(question.location)
        if visit.person is None:
            return _to_sign_in(visit)
        request = question.request
        return self._pages.render(
            "oauth/connect.html",
            visit,
            forms_lead_to=_schemes_of_the_way_back(request.redirect_uri),
            app=request.app,
            owner=question.owner,
            connection=question.connection,
            scopes=request.scope.split(" "),
            words=SCOPES_IN_WORDS,
            until=rules.token_expiry(self._clock()),
            redirect_uri=request.redirect_uri,
            own_address=_own_address(visit),
        )

    async def decide(self, visit: Visit) -> Answer:
        """Send the person back to the app with a code, or with a no."""
        person = visit.person
        decision = visit.form.get("decision")
        if person is None or decision not in {"allow", "deny"}:
            return see_other(_own_address(visit))

        async def work(transaction: Transaction) -> str:
            request = await connect_request(transaction, _query_of(visit), self._issuer)
            if isinstance(request, ErrorRedirect):
                return request.location
            if decision == "deny":
                return redirect_with_denial(request, self._issuer)
            code = await issue_code(transaction, request, person.account_id, self._clock)
            trace = EventSource(visit.address, visit.device)
            await record_event(
                transaction,
                person.account_id,
                "app_connected",
                trace,
                self._clock,
                f"{request.app.name}: {request.scope}",
            )
            return redirect_with_code(request, code, self._issuer)

        return see_other(await self._database.write(work))


def _query_of(visit: Visit) -> bytes:
    return visit.url.partition("?")[2].encode("latin-1")


def _own_address(visit: Visit) -> str:
    """Return this page's address, spelt so that it can be followed byte for byte."""
    return f"/connect?{quote_from_bytes(_query_of(visit), safe='%&=+')}"


def _schemes_of_the_way_back(redirect_uri: str) -> str:
    """Return what a policy says of where the page's form may end."""
    # A browser holds the policy against the app's own redirects as well, from where it takes the
    # code to where it shows something: the host of the redirect URI alone would strand people.
    return "https: http:" if redirect_uri.startswith("http:") else "https:"


def _to_sign_in(visit: Visit) -> Answer:
    return see_other(f"/login?next={quote(_own_address(visit), safe='')}")
