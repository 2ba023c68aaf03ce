"""What the log of a sandbox says about calls that the API reference makes."""

import httpx2
import pytest

from tests.docs.test_trial import FILL, PAGE, RUN, keys_on
from tests.support.server import Server
from tests.support.visitor import Visitor

pytestmark = [pytest.mark.slow, pytest.mark.one_engine]


async def test_the_log_has_the_call_but_no_key(database_url: str) -> None:
    """Neither the key nor the body, although the log has a line for each call."""
    with Server(database_url, "--sandbox", OUSEL_REQUEST_LOG="true") as server:
        async with httpx2.AsyncClient(base_url=server.origin, verify=False) as client:
            visitor = Visitor(client)
            await visitor.sign_up("grace")
            await visitor.create_app("Shop")
            await visitor.press(PAGE, FILL)
            ran = await visitor.press(PAGE, RUN, body='{"to": "@secret_friend", "amount": 1}')
        log = server.stop()
    [key] = set(keys_on(ran.text))

    assert "account_not_found" in ran.text
    assert "/v1/transfers" in log
    assert key not in log
    assert "secret_friend" not in log
