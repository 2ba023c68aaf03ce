"""Unknown paths get 404; wrong methods get 405 with the allowed methods."""

import pytest

from tests.support.problems import assert_problem
from tests.support.raw_http import exchange, request
from tests.support.world import World

pytestmark = pytest.mark.one_engine

NOWHERE = (
    *("/v1", "/v1/", "/v1/nothing", "/v1//me", "/v1/me/", "/V1/me", "/v1/Me", "/v1/me/x", "/v2/me"),
    *("/v1/accounts", "/v1/accounts/a/b", "/v1/%6De", "/v1/me%00", "/v1/me%2F", "/v1/charges/x/y"),
    *("/v1/accounts/%FF", "/v1/accounts/%C3", "/v1/accounts/%ED%A0%80", f"/v1/{'a' * 5000}"),
    *(f"/v1/accounts/{'a' * 5000}", "/v1/../v1/me", "//v1/me", "/nothing.json"),
)
METHODS = {
    "/v1/me": "GET, HEAD",
    "/v1/balance": "GET, HEAD",
    "/v1/accounts/@ada": "GET, HEAD",
    "/v1/transfers": "GET, HEAD, POST",
}


async def test_a_path_that_does_not_exist_is_a_404(world: World, subtests: pytest.Subtests) -> None:
    """An unknown path is a 404 problem, with a key or without."""
    async with world.partner() as caller:
        for path in NOWHERE:
            for headers in ([], [("Authorization", f"Bearer {caller.key}")]):
                with subtests.test(path=path[:40], known=bool(headers)):
                    answer = await exchange(world.server.port, request("GET", path, headers))

                    assert_problem(answer, 404, "not_found")


async def test_a_path_without_the_base_path_is_told_the_base_url(
    world: World, subtests: pytest.Subtests
) -> None:
    """A path without the version gets an answer that names the base URL, also as a page."""
    base_url = world.server.base_url
    for path in ("/me", "/transfers", "/accounts/@ada", "/charges/ch_x", "/oauth/token"):
        with subtests.test(path=path):
            answer = await exchange(world.server.port, request("POST", path, []))
            page = await exchange(
                world.server.port, request("GET", path, [("Accept", "text/html")])
            )

            assert base_url in assert_problem(answer, 404, "not_found")["detail"]
            assert page.status_code == 404
            assert base_url in page.text
    for path in ("/nothing", "/v1/nothing", "/v1/v1/me", "/me/", "//me", "/accounts/%FF"):
        with subtests.test(path=path):
            answer = await exchange(world.server.port, request("GET", path, []))

            assert base_url not in assert_problem(answer, 404, "not_found")["detail"]


async def test_a_method_that_is_not_there_is_a_405_with_allow(
    world: World, subtests: pytest.Subtests
) -> None:
    """The answer names the methods that the path has."""
    others = ("DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
    for path, allow in METHODS.items():
        for method in (*others, *(["POST"] if "POST" not in allow else [])):
            with subtests.test(path=path, method=method):
                answer = await exchange(world.server.port, request(method, path, []))

                assert_problem(answer, 405, "method_not_allowed")
                assert answer.headers["Allow"] == allow


async def test_head_answers_as_get_without_the_body(world: World) -> None:
    """HEAD has the status and the headers of GET, its length included, and no body."""
    async with world.partner() as caller:
        for path in ("/me", "/transfers", "/accounts/nobody"):
            got = await caller.client.get(path)
            head = await caller.client.head(path)

            assert head.status_code == got.status_code
            assert head.content == b""
            assert head.headers["Content-Type"] == got.headers["Content-Type"]
            assert head.headers["Content-Length"] == str(len(got.content))


async def test_every_answer_has_a_request_id_of_its_own(world: World) -> None:
    """Every answer, success or refusal, has a request id."""
    async with world.partner() as caller:
        answers = [
            *[await caller.client.get("/me") for _ in range(3)],
            *[await caller.client.get("/nothing") for _ in range(3)],
        ]

    ids = {answer.headers["X-Request-Id"] for answer in answers}
    assert len(ids) == len(answers)
    assert all(name.startswith("req_") for name in ids)


async def test_every_answer_is_kept_from_caches_frames_and_sniffing(world: World) -> None:
    """Answers forbid caching and framing."""
    async with world.partner() as caller:
        answers = [await caller.client.get("/balance"), await caller.client.get("/nothing")]

    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "Server" not in answer.headers


async def test_a_request_that_is_no_http_is_refused(
    world: World, subtests: pytest.Subtests
) -> None:
    """Nonsense on the wire is a 400 problem, and the next request is served."""
    head = b"POST /v1/transfers HTTP/1.1\r\nHost: x\r\n"
    nonsense = (
        b"nonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/me HTTP/9.9\r\n\r\n",
        b"GET /v1/accounts/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: x\r\nX: \x00\r\n\r\n",
        head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        head + b"Content-Length: -1\r\n\r\n",
        head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        head + b"Host: x\r\nContent-Length: 0\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\n\r\n",
    )
    for octets in nonsense:
        with subtests.test(octets=octets):
            answer = await exchange(world.server.port, octets)
            assert_problem(answer, 400, "malformed_request")
            assert answer.headers["Connection"] == "close"
            assert answer.headers["Cache-Control"] == "no-store"

    async with world.partner() as caller:
        assert (await caller.client.get("/me")).status_code == 200


async def test_headers_have_a_limit(world: World, subtests: pytest.Subtests) -> None:
    """Large ones are read; without an end, or larger than any client's, they are a 431."""
    async with world.partner() as caller:
        key = ("Authorization", f"Bearer {caller.key}")
        for size in (1_000, 30_000):
            with subtests.test(size=size):
                head = request("GET", "/v1/me", [key, ("X-Large", "x" * size)])
                assert (await exchange(world.server.port, head)).status_code == 200
        endless = request("GET", "/v1/me", [key, ("X-Endless", "x" * 1_000_000)])[:-4]
        many = request("GET", "/v1/me", [key, *((f"X-{n}", "x") for n in range(50_000))])[:-4]
        for head in (endless, many, b"GET /" + b"x" * 1_000_000):
            with subtests.test(head=head[:20], size=len(head)):
                answer = await exchange(world.server.port, head)
                assert_problem(answer, 431, "head_too_large")
                assert answer.headers["Connection"] == "close"
