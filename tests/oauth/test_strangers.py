"""Three standard clients that nobody here wrote, each with a person in a real browser."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.oauth.strangers import Refused, stranger
from tests.oauth.towns import Town, allow, arrived, brought, opened_town

pytestmark = pytest.mark.slow

LIBRARIES = ["authlib", "requests-oauthlib", "oauth4webapi"]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """One town for all tests of the module."""
    with opened_town(tmp_path_factory.mktemp("town")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _on_a_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries take plain HTTP only where they are told that it is well."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_standard_client_walks_the_whole_way(town: Town, library: str) -> None:
    """Discover, ask with a proof key, take the code, read, revoke: as the library has it.

    On the way it is shown what does not fit: another state, another issuer, a code used twice.
    """
    page = town.stage.page("grace")
    with stranger(library, town) as app:
        page.goto(app.asked)
        returned = allow(page)
        back = brought(returned)
        forged = returned.replace(f"state={back['state'][0]}", "state=forged")
        with pytest.raises(Refused, match=r"(?i)state"):
            app.finished(forged)
        if library == "oauth4webapi":
            own, other = quote(town.stage.server.origin, safe=""), quote("https://evil.example")
            with pytest.raises(Refused, match="iss"):
                app.finished(returned.replace(f"iss={own}", f"iss={other}"))
            with pytest.raises(Refused, match="iss"):
                app.finished(returned.replace(f"iss={own}", "a=b"))
        learnt = app.finished(returned)
        with pytest.raises(Refused, match="invalid_grant"):
            app.finished(returned)
    page.context.close()

    assert "code_challenge_method=S256" in app.asked
    assert learnt == {
        "username": "grace",
        "currency": "OUSD",
        "scope": "profile balance",
        "lifetime": 2_592_000,
        "after": 401,
    }


# Authlib's session leaves it to the app to read the error.
@pytest.mark.parametrize("library", ["requests-oauthlib", "oauth4webapi"])
def test_a_standard_client_hears_a_no(town: Town, library: str) -> None:
    """A person who denies access comes back with an error that the library understands."""
    page = town.stage.page("grace")
    with stranger(library, town) as app:
        page.goto(app.asked)
        page.get_by_role("button", name="Deny").click()

        with pytest.raises(Refused, match="access_denied"):
            app.finished(arrived(page))
    page.context.close()
