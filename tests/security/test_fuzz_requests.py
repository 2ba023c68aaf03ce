"""Random requests are all answered, never with a 500, and never get access."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ousel.app.ousel import Ousel
from ousel.database.addresses import open_database
from ousel.database.schema import migrate
from ousel.http.messages import Request
from ousel.kernel.settings import Settings
from tests.security.cases import fuzzed, lists_of, made_of, one_of, pairs_of, quickly
from tests.support.accounts import partner

METHODS = one_of("GET", "POST", "HEAD", "OPTIONS", "DELETE", "PUT", "BREW")
PATHS = one_of(
    *(b"/v1/me", b"/v1/balance", b"/v1/transfers", b"/v1/charges", b"/v1/accounts/@ada"),
    *(b"/v1/charges/ch_1", b"/v1/charges/ch_1/cancel", b"/v1/oauth/token", b"/v1/user/me"),
    *(b"/v1/oauth/revoke", b"/login", b"/signup", b"/connect", b"/pay/ch_1", b"/apps"),
    *(b"/settings", b"/docs", b"/healthz", b"/assets/style.css", b"/activity", b"/"),
) | made_of(b"/", b"v1", b"%2f", b"%00", b"%ff", b"..", b"charges", b"pay", b"apps", b"?").map(
    lambda path: b"/" + path
)
HEADERS = lists_of(
    pairs_of(
        one_of(
            *(b"authorization", b"content-type", b"content-length", b"origin", b"cookie"),
            *(b"prefer", b"if-none-match", b"idempotency-key", b"accept", b"host"),
            *(b"access-control-request-method", b"traceparent", b"referer", b"user-agent"),
        ),
        made_of(
            *(b"Bearer ", b"Basic ", b"sk_live_", b"0" * 40, b"ut_live_", b"application/json"),
            *(b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x"),
            *(b"https://a.example", b"ousel_session=", b"os_", b"wait=0", b'"', b"text/html"),
            length=4,
        ),
    ),
    5,
)
BODIES = made_of(
    *(b"{", b"}", b'"to":', b'"@ada"', b",", b'"amount":', b"1", b"form_token=", b"&", b"%"),
    *(b"identifier=ada", b"password=x", b"--x\r\n", b"Content-Disposition: form-data", b"\r\n\r\n"),
    length=12,
)
PROTECTED = ("/v1/me", "/v1/balance", "/v1/transfers", "/v1/charges", "/v1/user", "/v1/accounts")


class Service:
    """The whole service on its own event loop, called as a server calls it."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.key = self.loop.run_until_complete(self._prepared(url))
        wanted = Settings(database_url=url, rate_limit=None)
        self._ousel = Ousel(wanted)
        self._running = self._ousel.running()
        self.loop.run_until_complete(self._running.__aenter__())

    async def _prepared(self, url: str) -> str:
        await migrate(url)
        async with open_database(url) as database:
            return (await partner(database, "shop", "1000"))[2]

    def close(self) -> None:
        """Close the service and its loop."""
        self.loop.run_until_complete(self._running.__aexit__(None, None, None))
        self.loop.close()

    def answer(
        self, method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        return self.loop.run_until_complete(self._answer(method, target, headers, body))

    async def _answer(
        self, method: str, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, bytes]:
        path, _, query = target.partition(b"?")
        response = await self._ousel.respond(
            Request(
                method=method,
                path=path.decode("latin-1"),
                query=query,
                headers=dict(headers),
                body=body,
                ip_address="192.0.2.1",
            )
        )
        return response.status, response.body


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on an SQLite file."""
    running = Service(str(Path(tmp_path_factory.mktemp("fuzz")) / "ousel.db"))
    yield running
    running.close()


@fuzzed(25_000, method=METHODS, path=PATHS, query=BODIES, headers=HEADERS, body=BODIES)
def test_strangers_are_answered_and_let_in_nowhere(
    service: Service,
    method: str,
    path: bytes,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    """Without a valid credential, no protected data is returned."""
    with quickly():
        status, answer = service.answer(method, path + b"?" + query, headers, body)

    assert 200 <= status < 500, answer
    asked = path.partition(b"?")[0].decode("latin-1")
    if asked.startswith(PROTECTED) and method in {"GET", "POST"}:
        assert status in {400, 401, 403, 404, 405}, answer
    if answer.startswith(b"{") and status >= 400:
        assert {"title", "detail", "request_id"} <= set(msgspec.json.decode(answer)) or (
            b"oauth" in path
        )


@fuzzed(25_000, method=METHODS, path=PATHS, query=BODIES, headers=HEADERS, body=BODIES)
def test_partners_are_answered_too(
    service: Service,
    method: str,
    path: bytes,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    """With a valid key, random requests are answered without a server error."""
    signed = [each for each in headers if each[0] not in {b"authorization", b"origin"}]
    signed.append((b"authorization", f"Bearer {service.key}".encode()))
    if method == "POST":
        signed = [each for each in signed if each[0] != b"content-type"]
        signed.append((b"content-type", b"application/json"))
    with quickly():
        status, answer = service.answer(method, path + b"?" + query, signed, body)

    assert 200 <= status < 500, answer
