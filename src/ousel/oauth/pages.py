"""The consent page: an app asks for access, and a person allows or denies it."""

from typing import Final
from urllib.parse import quote, quote_from_bytes

from ousel.http.messages import Answer
from ousel.kernel.clock import Clock
from ousel.oauth import rules
from ousel.oauth.connect import ConnectService, ErrorRedirect
from ousel.people.event_source import event_source
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

SCOPE_LABELS: Final = {
    "profile": "Your profile: name, username, account number, email, and when you joined",
    "balance": "Your balance",
}

# The page sends these back as they came, so that its address does not get longer. A backslash is
# encoded, because the sign-in page takes it for the start of another site's address.
QUERY_CHARACTERS: Final = (
    "%&=+/:?@!$'()*,;~-._"  # allowed in a query by RFC 3986
    "[]{}|^`"  # not encoded by browsers either
)


class ConnectPages:
    """Serves the consent page to people whom an app has sent."""

    def __init__(self, pages: PageRenderer, service: ConnectService, clock: Clock) -> None:
        """Read requests and record decisions with this service."""
        self._pages = pages
        self._service = service
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the page's routes; a wrong address is reported before anyone has to sign in."""
        return [
            PageRoute(
                method="GET",
                path="/connect",
                answer=self.ask,
                for_everyone=True,
                reads_query_itself=True,
            ),
            PageRoute(
                method="POST",
                path="/connect",
                answer=self.decide,
                for_everyone=True,
                reads_query_itself=True,
            ),
        ]

    async def ask(self, visit: Visit) -> Answer:
        """Ask the person, or redirect to the app with its error."""
        account_id = None if visit.person is None else visit.person.account_id
        question = await self._service.read_request(_query_of(visit), account_id)
        if isinstance(question, ErrorRedirect):
            return see_other(question.location)
        if visit.person is None:
            return _to_sign_in(visit)
        request = question.request
        return self._pages.render(
            "oauth/connect.html",
            visit,
            forms_lead_to=_form_target_schemes(request.redirect_uri),
            app=request.app,
            owner=question.owner,
            connection=question.connection,
            scopes=request.scope.split(" "),
            scope_labels=SCOPE_LABELS,
            until=rules.token_expiry(self._clock()),
            redirect_uri=request.redirect_uri,
            own_address=_own_address(visit),
        )

    async def decide(self, visit: Visit) -> Answer:
        """Send the person back to the app, with a code or with a denial."""
        decision = visit.form.get("decision")
        if visit.person is None or decision not in {"allow", "deny"}:
            return see_other(_own_address(visit))
        if decision == "deny":
            return see_other(await self._service.deny(_query_of(visit)))
        location = await self._service.allow(
            _query_of(visit), visit.person.account_id, event_source(visit)
        )
        return see_other(location)


def _query_of(visit: Visit) -> bytes:
    return visit.url.partition("?")[2].encode("latin-1")


def _own_address(visit: Visit) -> str:
    """Return this page's address, encoded so that every byte is preserved."""
    return f"/connect?{quote_from_bytes(_query_of(visit), safe=QUERY_CHARACTERS)}"


def _form_target_schemes(redirect_uri: str) -> str:
    """Return the form-action sources of the page's Content-Security-Policy."""
    # Browsers apply form-action to the app's own redirects as well. Allowing only the redirect
    # URI's host would block apps that redirect again after they have taken the code.
    return "https: http:" if redirect_uri[:5].lower() == "http:" else "https:"


def _to_sign_in(visit: Visit) -> Answer:
    return see_other(f"/login?next={quote(_own_address(visit), safe='')}")
