"""The metadata document of RFC 8414, from which standard clients configure themselves."""

import pytest

from tests.support.in_process import in_process_client

pytestmark = pytest.mark.one_engine

PORTAL = "https://ousel.example"
API = "https://api.ousel.example/v1"


async def test_the_metadata_document(database_url: str) -> None:
    """The issuer, every endpoint, and what can be asked for; nothing that is not so."""
    async with in_process_client(database_url, portal_url=PORTAL, base_url=API) as client:
        answer = await client.get(f"{PORTAL}/.well-known/oauth-authorization-server")

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {
        "issuer": PORTAL,
        "authorization_endpoint": f"{PORTAL}/connect",
        "token_endpoint": f"{API}/oauth/token",
        "revocation_endpoint": f"{API}/oauth/revoke",
        "service_documentation": f"{PORTAL}/docs",
        "scopes_supported": ["profile", "balance"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": [
            "client_secret_basic",
            "client_secret_post",
        ],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }
