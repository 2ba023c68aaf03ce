"""The request log has one line for each request, without secrets."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ousel.api.observers import AnsweredRequest
from ousel.database.addresses import open_database
from ousel.observation.request_log import RequestLog
from tests.support.accounts import partner
from tests.support.in_process import in_process_client
from tests.support.raw_http import exchange, request
from tests.support.server import Server

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
FIELDS = {
    *("event", "level", "timestamp", "request_id", "method", "route", "status", "code", "ms"),
    *("app_id", "trace_id"),
}
ANSWERED = AnsweredRequest(
    request_id="req_1", method="GET", route=None, caller=None, status=200, code=None, seconds=0.1
)


@pytest.mark.slow
async def test_each_request_is_one_line(file_url: str) -> None:
    """With its id, route, status, time, app and trace; and with no address, query, body or key."""
    async with open_database(file_url) as database:
        _, app, key = await partner(database, "ada", "5")
    with Server(file_url, OUSEL_REQUEST_LOG="true") as running:
        async with running.client(key) as client:
            secrets = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "Cookie": "cookie=c00kie"}
            sent = [
                await client.get("/accounts/ada@example.com", headers=secrets),
                await client.get("/transfers?limit=1&cursor=qu3ry"),
                await client.post("/transfers", json={"to": "@b0dy", "amount": 1, "note": "n0te"}),
            ]
        httpx2.get(f"{running.origin}/l0st", verify=False)
        log = running.stop()

    lines = _requests(log)
    assert [set(line) for line in lines] == [FIELDS] * len(lines)
    by_id = {line["request_id"]: line for line in lines}
    looked_up, listed, refused = (by_id[each.headers["X-Request-Id"]] for each in sent)
    assert looked_up["route"] == "/v1/accounts/{identifier}"
    assert (looked_up["method"], looked_up["status"], looked_up["code"]) == ("GET", 200, None)
    assert looked_up["trace_id"] == TRACE
    assert listed["trace_id"] is None
    assert (refused["status"], refused["code"]) == (404, "account_not_found")
    assert {each["app_id"] for each in (looked_up, listed, refused)} == {app.id}
    assert all(0 < line["ms"] < 30_000 and line["level"] == "info" for line in lines)
    lost = [line for line in lines if line["route"] == "unmatched"]
    assert [(line["status"], line["code"], line["app_id"]) for line in lost] == [
        (404, "not_found", None)
    ]
    for secret in (key, "ada@", "ada%40", "qu3ry", "c00kie", "b0dy", "n0te", "l0st"):
        assert secret not in log


@pytest.mark.slow
async def test_the_time_of_a_request_includes_the_wait_for_its_turn(file_url: str) -> None:
    """It may have arrived while the request before it on the connection was answered."""
    async with open_database(file_url) as database:
        _, _, key = await partner(database, "ada", "5")
    authorized = ("Authorization", f"Bearer {key}")
    with Server(file_url, OUSEL_REQUEST_LOG="true") as running:
        waiting = request(
            "GET", "/v1/transfers?order=oldest&cursor=1", [authorized, ("Prefer", "wait=1")]
        )
        waiting = waiting.replace(b"Connection: close\r\n", b"")
        await exchange(running.port, waiting + request("GET", "/v1/me", [authorized]))
        lines = {line["route"]: line for line in _requests(running.stop())}

    assert lines["/v1/me"]["ms"] > 500


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({}, 0),
        ({"request_log": True, "log_level": "warning"}, 0),
        ({"request_log": True, "log_level": "info"}, 1),
        ({"request_log": True, "log_level": "debug"}, 1),
    ],
)
async def test_it_is_off_unless_it_is_asked_for(
    file_url: str, capfd: pytest.CaptureFixture[str], settings: dict[str, Any], lines: int
) -> None:
    """It is off by default, and where the log level leaves out everything below warnings."""
    async with in_process_client(file_url, **settings) as client:
        await client.get("/me")

    assert capfd.readouterr().err.count('"event":"request"') == lines


def test_a_line_that_cannot_be_written_is_lost_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the log cannot be written because the disk is full, the answer is still sent."""
    with (tmp_path / "log").open("w") as file, Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        log = RequestLog()
        log.request_answered(ANSWERED)
        os.dup2(file.fileno(), full.fileno())
        log.request_answered(ANSWERED)

    assert [line["request_id"] for line in _requests((tmp_path / "log").read_text())] == ["req_1"]


def test_a_reader_that_stalls_stops_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody reads the pipe, there are soon more lines than it has room for."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        log = RequestLog()
        for _ in range(1_000):
            log.request_answered(ANSWERED)
        taken = os.read(reading, 1 << 20).decode()

    assert 0 < len(_requests(taken)) < 1_000


def _requests(log: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines()]
    return [line for line in lines if line["event"] == "request"]
