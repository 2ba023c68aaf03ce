"""Origins: a web page's script may call only from an origin that the app has registered."""

import httpx2
import pytest

from tests.support.accounts import unique_name
from tests.support.problems import assert_problem
from tests.support.world import World

pytestmark = pytest.mark.one_engine

METHOD = {"Access-Control-Request-Method": "POST"}


async def test_an_origin_that_is_not_registered_is_refused(
    world: World, subtests: pytest.Subtests
) -> None:
    """403 for another host, scheme, port or spelling, and for another app's origin; no CORS."""
    host = f"{unique_name('shop').replace('_', '-')}.example"
    async with (
        world.partner(origins=[f"https://{host}"]) as caller,
        world.partner(origins=[f"https://other.{host}"]),
    ):
        for origin in (
            *(f"http://{host}", f"https://{host}:8443", f"https://www.{host}", f"https://{host}/"),
            *(
                f"https://other.{host}",
                f"https://{host}.evil.example",
                "null",
                "",
                f"HTTPS://{host}",
            ),
            f"https://{host}, https://{host}",
        ):
            with subtests.test(origin=origin):
                answer = await caller.client.get("/me", headers={"Origin": origin})

                assert_problem(answer, 403, "origin_not_allowed")
                assert not _cors(answer)


async def test_a_registered_origin_gets_cors_headers(world: World) -> None:
    """The origin itself, never a star; with the headers that a script may read; errors as well."""
    origin = f"https://{unique_name('shop').replace('_', '-')}.example"
    async with world.partner(origins=[origin.upper().replace("HTTPS", "https")]) as caller:
        found = await caller.client.get("/me", headers={"Origin": origin})
        refused = await caller.client.get("/accounts/nobody", headers={"Origin": origin})
        wrong = await caller.client.get("/transfers?limit=0", headers={"Origin": origin})

    assert found.status_code == 200
    assert_problem(refused, 404, "account_not_found", "identifier")
    assert_problem(wrong, 400, "invalid_field", "limit")
    for answer in (found, refused, wrong):
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert answer.headers["Vary"] == "Origin"
        exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
        assert {"X-Request-Id", "Idempotent-Replayed", "Retry-After", "Traceresponse"} <= set(
            exposed
        )
        assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_a_refused_origin_moves_nothing(world: World) -> None:
    """A page that is not registered cannot send money, even with the key in its hands."""
    ada = await world.person()
    body = {"to": f"@{ada.username}", "amount": 1}

    async with world.partner("10") as caller:
        answer = await caller.client.post(
            "/transfers", json=body, headers={"Origin": "https://evil.example"}
        )

    assert_problem(answer, 403, "origin_not_allowed")
    assert await world.balance(ada) == 0


async def test_a_call_without_an_origin_is_accepted(world: World) -> None:
    """Server to server there is no Origin, and no CORS header comes back."""
    async with world.partner() as caller:
        answer = await caller.client.get("/me")

    assert answer.status_code == 200
    assert not _cors(answer)


async def test_an_origin_does_not_replace_a_key(world: World) -> None:
    """The key is checked first: without one, the origin does not matter."""
    async with world.server.client() as client:
        answer = await client.get("/me", headers={"Origin": "https://nobody.example"})

    assert_problem(answer, 401, "unauthorized")
    assert not _cors(answer)


@pytest.mark.parametrize(
    ("path", "code"), [("/me", "unauthorized"), ("/user/balance", "invalid_token")]
)
async def test_a_page_can_read_that_its_credential_has_ended(
    world: World, path: str, code: str
) -> None:
    """A key or token that is no good belongs to no app: pages of any of them may know."""
    origin = f"https://{unique_name('shop').replace('_', '-')}.example"
    headers = {"Origin": origin, "Authorization": "Bearer ended"}
    async with world.partner(origins=[origin]), world.server.client() as client:
        answer = await client.get(path, headers=headers)

    assert_problem(answer, 401, code)
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert "X-Request-Id" in answer.headers["Access-Control-Expose-Headers"]


async def test_a_page_can_read_that_its_client_secret_has_ended(world: World) -> None:
    """The endpoints of OAuth tell it in their own form."""
    origin = f"https://{unique_name('shop').replace('_', '-')}.example"
    body = {"client_id": "app_1", "client_secret": "ended", "token": "x"}
    async with world.partner(origins=[origin]), world.server.client() as client:
        answer = await client.post("/oauth/revoke", json=body, headers={"Origin": origin})

    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answer.headers.get_list("Access-Control-Allow-Origin") == [origin]


async def test_a_page_can_read_that_its_key_ended_before_it_was_used(world: World) -> None:
    """Also where the key was looked at again by what it should have paid for."""
    origin = f"https://{unique_name('shop').replace('_', '-')}.example"
    async with world.partner(origins=[origin]) as caller:
        await caller.client.get("/me")
        await world.revoke(caller)
        answer = await caller.client.post(
            "/transfers", json={"to": "@nobody_here", "amount": 1}, headers={"Origin": origin}
        )

    assert_problem(answer, 401, "unauthorized")
    assert answer.headers.get_list("Access-Control-Allow-Origin") == [origin]


async def test_a_page_can_read_that_there_is_no_such_endpoint(world: World) -> None:
    """A misspelt path or a wrong method is told to the script, not hidden by its browser."""
    origin = f"https://{unique_name('shop').replace('_', '-')}.example"
    async with world.partner(origins=[origin]) as caller:
        misspelt = await caller.client.get("/balanse", headers={"Origin": origin})
        wrong = await caller.client.post("/balance", headers={"Origin": origin})
        elsewhere = await caller.client.get("/balanse", headers={"Origin": f"{origin}.evil"})

    assert_problem(misspelt, 404, "not_found")
    assert_problem(wrong, 405, "method_not_allowed")
    for answer in (misspelt, wrong):
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert answer.headers["Vary"] == "Origin"
    assert wrong.headers["Allow"] == "GET, HEAD"
    assert not _cors(elsewhere)


async def test_a_preflight_is_answered_for_an_origin_that_some_app_has_registered(
    world: World,
) -> None:
    """A browser asks without a key: 204, no body, with what a call may bring."""
    origin = f"https://{unique_name('shop').replace('_', '-')}.example"
    async with world.partner(origins=[origin]), world.server.client() as client:
        answer = await client.options(
            "/transfers",
            headers={
                "Origin": origin,
                "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
                **METHOD,
            },
        )

    assert answer.status_code == 204
    assert answer.content == b""
    assert "Content-Type" not in answer.headers
    assert "Content-Length" not in answer.headers
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST"
    allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert {"authorization", "content-type", "idempotency-key", "ousel-rehearse"} <= set(allowed)
    assert {"traceparent", "tracestate"} <= set(allowed)
    assert answer.headers["Access-Control-Max-Age"] == "600"
    assert answer.headers["Vary"] == "Origin"
    assert answer.headers["X-Request-Id"].startswith("req_")


async def test_a_preflight_from_anywhere_else_is_refused(world: World) -> None:
    """Nobody has registered it, so nobody may call from it."""
    async with world.server.client() as client:
        unknown = await client.options("/me", headers={"Origin": "https://x.example", **METHOD})
        without = await client.options("/me", headers=METHOD)

    assert_problem(unknown, 403, "origin_not_allowed")
    assert_problem(without, 403, "origin_not_allowed")
    assert not _cors(unknown)


def _cors(answer: httpx2.Response) -> set[str]:
    return {name for name in answer.headers if name.startswith("access-control-")}
