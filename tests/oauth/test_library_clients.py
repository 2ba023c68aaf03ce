"""OAuth clients built on three third-party libraries, each with a person in a real browser."""

from urllib.parse import quote

import pytest

from tests.oauth.browser_steps import allow, returned_parameters, wait_for_app
from tests.oauth.library_clients import Refused, run_client
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

LIBRARIES = ["authlib", "requests-oauthlib", "oauth4webapi"]


@pytest.fixture(autouse=True)
def _allow_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the libraries use plain HTTP."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_standard_client_completes_the_flow(browser_world: SampleWorld, library: str) -> None:
    """The library discovers, asks with a proof key, takes the code, reads and revokes.

    It rejects another state, another issuer and a code that was used before.
    """
    page = browser_world.page("grace")
    with run_client(library, browser_world) as app:
        page.goto(app.connect_url)
        returned = allow(page)
        back = returned_parameters(returned)
        forged = returned.replace(f"state={back['state'][0]}", "state=forged")
        with pytest.raises(Refused, match=r"(?i)state"):
            app.finish(forged)
        if library == "oauth4webapi":
            own, other = quote(browser_world.server.origin, safe=""), quote("https://evil.example")
            with pytest.raises(Refused, match="iss"):
                app.finish(returned.replace(f"iss={own}", f"iss={other}"))
            with pytest.raises(Refused, match="iss"):
                app.finish(returned.replace(f"iss={own}", "a=b"))
        learnt = app.finish(returned)
        with pytest.raises(Refused, match="invalid_grant"):
            app.finish(returned)
    page.context.close()

    assert "code_challenge_method=S256" in app.connect_url
    assert learnt == {
        "username": "grace",
        "currency": "OUSD",
        "scope": "profile balance",
        "lifetime": 2_592_000,
        "after": 401,
    }


# Authlib's session leaves it to the app to read the error.
@pytest.mark.parametrize("library", ["requests-oauthlib", "oauth4webapi"])
def test_a_standard_client_receives_the_denial(browser_world: SampleWorld, library: str) -> None:
    """A person who denies access comes back with an error that the library understands."""
    page = browser_world.page("grace")
    with run_client(library, browser_world) as app:
        page.goto(app.connect_url)
        page.get_by_role("button", name="Deny").click()

        with pytest.raises(Refused, match="access_denied"):
            app.finish(wait_for_app(page))
    page.context.close()
