"""A standard OAuth client that knows only the metadata address completes the flow."""

from urllib.parse import urlsplit

import httpx2
import pytest
from oauthlib.oauth2 import InvalidGrantError
from requests_oauthlib import OAuth2Session

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.oauth.connect import ConnectRequest, connect_request, issue_code, redirect_with_code
from tests.oauth.consents import BOTH, REDIRECT_URI, Consent
from tests.support.server import Server


@pytest.mark.parametrize("proof", [None, "S256"])
@pytest.mark.parametrize("in_body", [True, False])
async def test_the_complete_flow(
    database: Database,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    *,
    proof: str | None,
    in_body: bool,
) -> None:
    """Consent, exchange, read and revoke; credentials in the body or Basic, with proof or not."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # the server is on a loopback address
    consent = await Consent.of_new_people(database)
    metadata = httpx2.get(f"{server.origin}/.well-known/oauth-authorization-server").json()
    client = OAuth2Session(
        consent.app.id, redirect_uri=REDIRECT_URI, scope=BOTH.split(" "), pkce=proof
    )
    asked, state = client.authorization_url(metadata["authorization_endpoint"])
    returned = await _allowed(consent, asked, metadata["issuer"])

    def exchange() -> dict[str, object]:
        token: dict[str, object] = client.fetch_token(
            metadata["token_endpoint"],
            authorization_response=returned,
            client_secret=consent.key,
            include_client_id=in_body,
            auth=None if in_body else (consent.app.id, consent.key),
        )
        return token

    token = exchange()
    profile = client.get(f"{server.base_url}/user/me")
    revoked = client.request(
        "POST",
        metadata["revocation_endpoint"],
        data={"token": token["access_token"]},
        auth=(consent.app.id, consent.key),
        withhold_token=True,
    )
    after = client.get(f"{server.base_url}/user/me")

    assert state in returned
    assert token["token_type"] == "Bearer"
    assert profile.json()["id"] == consent.user.id
    assert revoked.status_code == 200
    assert after.status_code == 401
    with pytest.raises(InvalidGrantError):
        exchange()


async def _allowed(consent: Consent, asked: str, issuer: str) -> str:
    """Return where the person is sent once the app is allowed what it asked for."""
    query = urlsplit(asked).query.encode()

    async def work(transaction: Transaction) -> str:
        request = await connect_request(transaction, query, issuer)
        assert isinstance(request, ConnectRequest)
        return redirect_with_code(
            request, await issue_code(transaction, request, consent.user.id, system_clock), issuer
        )

    return await consent.database.write(work)
