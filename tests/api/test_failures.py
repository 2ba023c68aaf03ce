"""A server error: the client gets a 500 with an id that is also in the log."""

from typing import Any, cast

import msgspec
import pytest

from ousel.api.authentication import ApiAuthenticator
from ousel.api.endpoint_server import EndpointServer
from ousel.api.observers import AnsweredRequest, RequestObservers
from ousel.api.route import Call, NoBody, NoQuery, Route
from ousel.api.router import Router
from ousel.http.messages import Answer, Request
from ousel.kernel.clock import system_clock
from ousel.kernel.settings import Settings


class FailingObserver:
    """An observer that fails for one path."""

    def request_answered(self, request: AnsweredRequest) -> None:
        """Fail for one path."""
        if request.route is not None and request.route.path == "/unseen":
            raise RuntimeError("planned failure")


async def failing(_: Call[NoBody, NoQuery]) -> Answer:
    """Fail in the endpoint."""
    raise RuntimeError("planned failure")


async def split(_: Call[NoBody, NoQuery]) -> Answer:
    """Answer with a header that would be two."""
    return Answer(200, b"{}", headers=((b"x-note", b"a\r\nx-other: b"),))


async def well(_: Call[NoBody, NoQuery]) -> Answer:
    """Answer normally."""
    return Answer(200, b"{}")


@pytest.fixture
def router() -> Router:
    """A router with routes that fail, each in its own way."""
    nobody = cast("Any", None)
    settings = Settings(database_url="unopened.db", rate_limit=None)
    handlers = {"/failing": failing, "/split": split, "/unseen": well, "/well": well}
    routes = [
        Route(method="GET", path=path, endpoint=handle, name="x", summary="X", access="public")
        for path, handle in handlers.items()
    ]
    authenticator = ApiAuthenticator(nobody, nobody, settings)
    endpoints = EndpointServer(authenticator, nobody)
    return Router(
        routes,
        authenticator,
        endpoints,
        nobody,
        settings,
        RequestObservers(system_clock, [FailingObserver()]),
    )


@pytest.mark.parametrize("path", ["/failing", "/split", "/unseen"])
async def test_a_failure_is_told_with_its_id(router: Router, path: str) -> None:
    """The answer is a 500 wherever the failure is: in the endpoint, in encoding, in observing."""
    response = await router.respond(_get(path))

    problem = msgspec.json.decode(response.body)
    assert (response.status, problem["code"]) == (500, "internal_error")
    assert b"x-request-id: %b\r\n" % problem["request_id"].encode() in response.head
    assert b"content-type: application/problem+json\r\n" in response.head
    assert b"cache-control: no-store\r\n" in response.head
    assert b"x-other" not in response.head


async def test_what_does_not_fail_is_answered(router: Router) -> None:
    """The router of these tests is one that works."""
    assert (await router.respond(_get("/well"))).status == 200


def _get(path: str) -> Request:
    return Request(method="GET", path=path, query=b"", headers={}, body=b"", ip_address="192.0.2.1")
