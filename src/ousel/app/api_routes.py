"""The routes of the API: which endpoints there are, and the services that they use."""

from ousel.accounts.endpoints import AccountEndpoints
from ousel.api.authentication import ApiAuthenticator
from ousel.api.endpoint_server import EndpointServer
from ousel.api.polling import partner_wait_limit
from ousel.api.route import Route
from ousel.app.services import Services
from ousel.charges.endpoints import ChargeEndpoints
from ousel.kernel.settings import Settings
from ousel.lab.endpoints import LabEndpoints
from ousel.lab.events import LabEvents
from ousel.lab.server import LabServer
from ousel.oauth.client_authentication import ClientAuthenticator
from ousel.oauth.endpoints import OauthEndpoints
from ousel.oauth.user_endpoints import UserEndpoints
from ousel.sandbox.endpoints import SandboxEndpoints
from ousel.transfers.endpoints import TransferEndpoints
from ousel.transfers.receipt_endpoints import ReceiptEndpoints


def api_routes(
    services: Services, authenticator: ApiAuthenticator, settings: Settings
) -> list[Route]:
    """Return the routes of the API, which its reference describes."""
    base, portal_url = settings.base_path, settings.portal_url
    clients = ClientAuthenticator(services.key_lookup, authenticator, services.api_errors)
    waits = partner_wait_limit()
    transfers = TransferEndpoints(
        services.posting_queue, services.history, services.follower, waits, services.clock
    )
    return [
        *AccountEndpoints(services.accounts).routes(base),
        *transfers.routes(base),
        *ReceiptEndpoints(services.receipts, waits).routes(base),
        *ChargeEndpoints(services.charges, waits, portal_url).routes(base),
        *OauthEndpoints(services.tokens, clients, settings).routes(),
        *UserEndpoints(services.accounts).routes(base),
        *_sandbox_routes(services, settings),
    ]


def _sandbox_routes(services: Services, settings: Settings) -> list[Route]:
    """Return the routes that only a sandbox has."""
    if services.sandbox_clock is None:
        return []
    sandbox = SandboxEndpoints(
        services.accounts,
        services.sandbox_clock,
        services.posting_queue,
        services.charges,
        services.outbox,
        settings.portal_url,
    )
    return [
        *sandbox.routes(settings.base_path),
        *LabEndpoints(services.lab, settings.portal_url).routes(settings.base_path),
    ]


def make_endpoint_server(
    services: Services, authenticator: ApiAuthenticator, settings: Settings
) -> EndpointServer | LabServer:
    """Return the endpoint server; in a sandbox, it can rehearse failures."""
    endpoints = EndpointServer(authenticator, services.api_errors, is_sandbox=settings.sandbox)
    if services.sandbox_clock is None:
        return endpoints
    events = LabEvents(
        services.accounts, services.charges, services.posting_queue, services.sandbox_clock
    )
    return LabServer(endpoints, authenticator, services.lab, events, settings.base_path)
