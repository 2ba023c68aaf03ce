"""The headers of every page: security policy, cookies, HTTPS."""

import re
from collections.abc import AsyncIterator

import httpx2
import pytest

from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.people.secret_file import SecretFileUnusable
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor

OPEN_PATHS = [
    *("/", "/login", "/signup", "/login/code", "/nothing-here", "/apps/new/nothing"),
    *("/verify-email?done=confirmed", "/verify-email?token=ep_nothing"),
]
OWN_PATHS = [
    "/activity",
    "/activity?kind=nonsense",
    "/activity/1",
    "/activity/999",
    "/apps",
    "/apps/new",
    "/apps/app_unknown",
    "/connections",
    "/settings",
    "/settings/history",
    "/settings/two-factor",
    "/settings/email",
    "/verify-email",
]


@pytest.fixture
async def secure(database_url: str) -> AsyncIterator[Portal]:
    """A portal that is reached by https."""
    async with open_portal(
        database_url, portal_url="https://ousel.test", base_url="https://ousel.test/v1"
    ) as opened:
        yield opened


def cookies_of(answer: httpx2.Response) -> dict[str, set[str]]:
    """Return each cookie that an answer sets, with its attributes."""
    found = {}
    for line in answer.headers.get_list("set-cookie"):
        pair, *attributes = line.split("; ")
        found[pair.partition("=")[0]] = set(attributes)
    return found


async def test_cookies_on_https_are_bound_to_the_host(secure: Portal) -> None:
    """Both cookies are __Host- cookies: secure, for this host alone, out of scripts' reach."""
    visitor = secure.visitor()
    strict = {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"}
    remembered = {"__Host-ousel_visitor": strict | {"Max-Age=7776000"}}
    greeted = await visitor.get("/login")
    assert cookies_of(greeted) == remembered
    entered = await visitor.sign_up("ada")
    session = {"__Host-ousel_session": strict | {"Max-Age=2592000"}}
    assert cookies_of(entered) == session | remembered  # the browser's own cookie is renewed
    left = await visitor.press("/activity", "Sign out")
    assert cookies_of(left) == {"__Host-ousel_session": strict | {"Max-Age=0"}}


async def test_cookies_on_http_are_out_of_scripts_reach(portal: Portal) -> None:
    """Without https they cannot be secure; all else holds."""
    visitor = portal.visitor()
    entered = await visitor.sign_up("ada")
    kept = {"Path=/", "HttpOnly", "SameSite=Lax"}
    assert cookies_of(entered) == {
        "ousel_session": kept | {"Max-Age=2592000"},
        "ousel_visitor": kept | {"Max-Age=7776000"},
    }


async def test_a_cookie_without_its_prefix_signs_nobody_in_on_https(secure: Portal) -> None:
    """A cookie that a neighbouring host could have planted is not read."""
    visitor = secure.visitor()
    await visitor.sign_up("ada")
    session = visitor.client.cookies["__Host-ousel_session"]
    other = secure.visitor()
    assert (await other.get("/settings", Cookie=f"ousel_session={session}")).status_code == 303
    kept = await other.get("/settings", Cookie=f"__Host-ousel_session={session}")
    assert kept.status_code == 200


async def test_https_is_remembered_where_it_is_used(secure: Portal, portal: Portal) -> None:
    """Strict-Transport-Security stands on every answer of an https portal, and on no other."""
    for path in ("/", "/nothing-here", "/v1/me", "/assets/ousel.css", "/login?next=/"):
        wanted = "max-age=31536000; includeSubDomains"
        answer = await secure.visitor().get(path)
        assert answer.headers["strict-transport-security"] == wanted, path
        assert "strict-transport-security" not in (await portal.visitor().get(path)).headers


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("br, gzip", "gzip"), ("identity", None), ("gzip;q=0", None), ("", None)],
)
async def test_assets_are_compressed_for_browsers_that_accept_it(
    portal: Portal, accepted: str, encoding: str | None
) -> None:
    """The content is the same, and caches keep both forms apart."""
    plain = await portal.visitor().get("/assets/ousel.css", **{"Accept-Encoding": "identity"})
    answer = await portal.visitor().get("/assets/ousel.css", **{"Accept-Encoding": accepted})

    assert answer.headers.get("content-encoding") == encoding
    assert "accept-encoding" in answer.headers["vary"]
    assert answer.content == plain.content  # the client has unpacked it
    assert (int(answer.headers["content-length"]) < len(plain.content) / 3) == bool(encoding)


@pytest.mark.one_engine
async def test_only_the_version_that_a_page_names_is_cached(portal: Portal) -> None:
    """During an upgrade, an old server gives its own file for a new version's address."""
    visitor = portal.visitor()
    [address] = re.findall(r'"(/assets/ousel.css\?v=\w+)"', (await visitor.get("/")).text)
    assert "immutable" in (await visitor.get(address)).headers["cache-control"]
    for other in ("/assets/ousel.css?v=000000000000", "/assets/ousel.css"):
        assert (await visitor.get(other)).headers["cache-control"] == "no-store"


def check_page(answer: httpx2.Response) -> None:
    """See that a page comes under the whole policy, and needs no exception from it."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "script-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
        "form-action": "'self'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", answer.text)
    assert not re.search(r"<style|<script(?! src=\"/assets/)", answer.text)
    assert re.findall(r'(?:src|href)="(?!/|#|data:image/svg)', answer.text) == []


async def test_open_pages_come_under_the_policy(portal: Portal) -> None:
    """No page needs an inline script or style, or anything from elsewhere."""
    for path in OPEN_PATHS:
        check_page(await portal.visitor().get(path))


async def test_own_pages_come_under_the_policy(ada: Visitor) -> None:
    """The same holds for pages of those who are signed in, error states included."""
    app = await ada.create_app()
    for path in (*OWN_PATHS, app, f"{app}/first-steps", f"{app}/errors", f"{app}/delete"):
        check_page(await ada.get(path))
    check_page(await ada.press(app, "Issue key", key_name="live"))
    check_page(await ada.press(app, "Add origin", origin="nonsense"))
    check_page(await ada.post("/settings/password", {}))


async def test_a_page_that_is_asked_in_the_wrong_way_is_answered_with_a_page(ada: Visitor) -> None:
    """A form's address, opened by hand, says so in words and names what is allowed."""
    answer = await ada.get("/settings/password")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    check_page(answer)
    assert "@ada" in answer.text


async def test_a_program_gets_a_problem_and_no_page(portal: Portal) -> None:
    """What is not there is told as JSON to whoever does not ask for HTML."""
    answer = await portal.visitor().get("/nothing-here", Accept="application/json")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("kind", [DatabaseUnavailable, SecretFileUnusable])
async def test_a_page_says_that_something_of_the_server_is_unavailable(
    portal: Portal, ada: Visitor, monkeypatch: pytest.MonkeyPatch, kind: type[Refusal]
) -> None:
    """A person sees a page that says to try again; what is wrong helps the operator alone."""

    async def gone(_work: object) -> None:
        raise kind("/srv/ousel is away.", retry_after_seconds=1)

    monkeypatch.setattr(portal.database, "read", gone)
    for path in ("/activity", "/settings"):
        answer = await ada.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "Try again in a moment." in answer.text
        assert "/srv/ousel is away." not in answer.text
        check_page(answer)
    assert (await ada.get("/nothing-here")).status_code == 404
