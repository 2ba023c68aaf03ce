"""Spans are sent to a collector if tracing is on, and do not exist otherwise."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from typing_extensions import override

from ousel.database.addresses import open_database
from ousel.observation import telemetry
from ousel.observation.spans import SpanRecorder
from tests.cli.commands import assert_fails, ousel
from tests.support.accounts import partner, person
from tests.support.in_process import in_process_client
from tests.support.ports import free_port
from tests.support.raw_sql import RawSql
from tests.support.server import Server
from tests.support.waiting import until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
REQUEST, BATCH = "POST /v1/transfers", "posting batch"
HANGING_SECONDS_MAX = 60.0


@pytest.mark.slow
async def test_a_collector_receives_the_spans(file_url: str) -> None:
    """A request and its batch have spans in the caller's trace, without secrets."""
    async with open_database(file_url) as database:
        _, app, key = await partner(database, "ada", "5")
        await person(database, "grace")
    with _collector() as (address, received):
        environment = {
            "OUSEL_TRACING": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with Server(file_url, **environment) as running:
            async with running.client(key) as client:
                sent = await client.post(
                    "/transfers",
                    json={"to": "@grace", "amount": 1, "note": "n0te"},
                    headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
                )
            assert sent.status_code == 201
            await until(lambda: {REQUEST, BATCH} <= _names_of_spans(received))
        spans, names = _spans(received)

    (request,) = (span for span in spans if span.name == REQUEST)
    assert request.trace_id.hex() == TRACE
    assert request.parent_span_id.hex() == PARENT
    assert sent.headers["traceresponse"] == f"00-{TRACE}-{request.span_id.hex()}-01"
    assert 0 < request.end_time_unix_nano - request.start_time_unix_nano < 30 * 10**9
    attributes = {each.key: each.value for each in request.attributes}
    assert attributes["http.route"].string_value == "/v1/transfers"
    assert attributes["http.response.status_code"].int_value == 201
    assert attributes["ousel.app_id"].string_value == app.id
    assert attributes["ousel.request_id"].string_value == sent.headers["X-Request-Id"]
    (batch,) = (span for span in spans if span.name == BATCH)
    assert {each.key: each.value.int_value for each in batch.attributes} == {"ousel.postings": 1}
    assert batch.trace_id.hex() != TRACE
    assert names == {"ousel"}
    assert all(secret not in str(spans) for secret in (key, "n0te", "grace"))


@pytest.mark.slow
async def test_opentelemetrys_own_variables_are_heeded(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service's name can be changed, and a server error is marked as an error.

    The last spans are sent in the end.
    """
    monkeypatch.setattr(telemetry, "LAST_SPANS_SECONDS_MAX", HANGING_SECONDS_MAX)
    async with RawSql(file_url) as raw_sql:
        await raw_sql.run("UPDATE alembic_version SET version_num = '0001'")
    with _collector() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "checkout")
        async with in_process_client(file_url, tracing=True) as client:
            failed = await client.get("http://127.0.0.1:8000/readyz")
        spans, names = _spans(received)

    assert failed.status_code == 503
    (span,) = spans
    assert span.status.code == Status.STATUS_CODE_ERROR
    attributes = {each.key: each.value for each in span.attributes}
    assert attributes["error.type"].string_value == "schema_outdated"
    assert names == {"checkout"}


@pytest.mark.slow
async def test_a_collector_that_is_away_is_no_trouble(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are answered, and the service comes to its end."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    async with in_process_client(file_url, tracing=True) as client:
        answer = await client.get("http://127.0.0.1:8000/readyz")

    assert answer.status_code == 200


@pytest.mark.slow
async def test_a_collector_that_hangs_does_not_hold_up_the_end(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service ends although its last spans are still being sent."""
    may_close, has_closed = threading.Event(), threading.Event()

    def close(_: SpanRecorder) -> None:
        may_close.wait(HANGING_SECONDS_MAX)
        has_closed.set()

    monkeypatch.setattr(SpanRecorder, "close", close)
    async with in_process_client(file_url, tracing=True):
        pass

    assert not has_closed.is_set()
    may_close.set()


async def test_a_trace_that_is_not_to_be_recorded_is_not(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the sampler drops a trace, nothing is sent and the answer says so."""
    with _collector() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        async with in_process_client(file_url, tracing=True) as client:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            answer = await client.get("http://127.0.0.1:8000/healthz", headers=headers)

    assert answer.headers["traceresponse"].startswith(f"00-{TRACE}-")
    assert answer.headers["traceresponse"].endswith("-00")
    assert received == []


def test_without_the_extra_the_start_says_how_to_get_it(tmp_path: Path) -> None:
    """One line that names the setting and the package."""
    with mock.patch.dict(sys.modules, {"ousel.observation.spans": None}):
        outcome = ousel(
            "serve", database=str(tmp_path / "ousel.db"), environment={"OUSEL_TRACING": "true"}
        )

    assert_fails(outcome, "OUSEL_TRACING needs the extra: pip install 'ousel[otel]'")


@contextmanager
def _collector() -> Iterator[tuple[str, list[bytes]]]:
    """Run a collector: a server that takes whatever is posted to it."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        @override
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


def _names_of_spans(received: list[bytes]) -> set[str]:
    return {span.name for span in _spans(received)[0]}


def _spans(received: list[bytes]) -> tuple[list[Any], set[str]]:
    """Return all spans, and the names of the services that they are of."""
    spans: list[Any] = []
    names: set[str] = set()
    for body in received:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            names |= {
                each.value.string_value
                for each in resource.resource.attributes
                if each.key == "service.name"
            }
            spans += [span for scope in resource.scope_spans for span in scope.spans]
    return spans, names
