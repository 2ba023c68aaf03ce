"""Pages: how long the portal takes to answer each of them, and how many bytes it sends."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from statistics import median
from typing import Final

import msgspec

from bench.cases import BenchEnvironment, MeasuredLedger
from ousel.workload.processes import MeasurementFailed

MOVEMENTS: Final = 300
SECONDS_MAX: Final = 0.3
PART: Final = "pages"  # selects this part of a run

# The account has an app with charges; {app}, {charge} and {entry} name its own.
SIGNED_IN: Final = (
    "/activity",
    "/activity?direction=out",
    "/activity/{entry}",
    "/send",
    "/pay/{charge}",
    "/apps",
    "/apps/{app}",
    "/apps/{app}/charges",
    "/apps/{app}/charges/{charge}",
    "/apps/{app}/first-steps",
    "/apps/{app}/errors",
    "/connections",
    "/settings",
    "/settings/history",
    "/settings/passkeys",
)
SIGNED_OUT: Final = (
    "/",
    "/login",
    "/signup",
    "/forgot",
    "/pay/{charge}",
    "/verify",
    "/docs",
    "/docs/operating/performance",
    "/docs/api",
    "/docs/errors",
)

_ASSETS: Final = re.compile(r'(?:src|href)="(/assets/[^"]+)"')
_MILLIS: Final = 1_000


class PageResult(msgspec.Struct, frozen=True, kw_only=True):
    """One page on one engine."""

    engine: str
    page: str
    p50_milliseconds: float
    page_bytes: int
    asset_bytes: int  # what a browser loads besides, on its first visit

    @property
    def first_visit_bytes(self) -> int:
        """What a browser loads that has never seen this site."""
        return self.page_bytes + self.asset_bytes


def measure_pages(environment: BenchEnvironment, seconds: float) -> Iterator[PageResult]:
    """Yield the result of each page, for an account with hundreds of movements."""
    for ledger in environment.ledgers.values():
        environment.send_transfers(ledger, MOVEMENTS)
        with closing(HTTPConnection("127.0.0.1", ledger.server.port)) as connection:
            yield from _measure_ledger(ledger, connection, seconds)


def _measure_ledger(
    ledger: MeasuredLedger, connection: HTTPConnection, seconds: float
) -> Iterator[PageResult]:
    fixtures = ledger.fixtures
    names = {"app": fixtures.app_id, "charge": fixtures.charges[0], "entry": "5"}
    cookie = {"Cookie": f"ousel_session={fixtures.owner_session}"}
    for paths, headers in ((SIGNED_IN, cookie), (SIGNED_OUT, {})):
        for pattern in paths:
            path = pattern.format_map(names)
            page = _get(connection, path, headers)
            assets = {_get(connection, found, {}) for found in _ASSETS.findall(page.decode())}
            yield PageResult(
                engine=ledger.engine,
                page=pattern if headers else f"{pattern}, signed out",
                p50_milliseconds=_median_seconds(connection, path, headers, seconds) * _MILLIS,
                page_bytes=len(page),
                asset_bytes=sum(map(len, assets)),
            )


def _median_seconds(
    connection: HTTPConnection, path: str, headers: dict[str, str], seconds: float
) -> float:
    """Return the median time of a page, which is requested again and again for a while."""
    times: list[float] = []
    while sum(times) < min(seconds, SECONDS_MAX):
        started = time.perf_counter()
        _get(connection, path, headers)
        times.append(time.perf_counter() - started)
    return median(times)


def _get(connection: HTTPConnection, path: str, headers: dict[str, str]) -> bytes:
    """Return the body of the answer, as it was sent."""
    connection.request("GET", path, headers=headers | {"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != HTTPStatus.OK:
        raise MeasurementFailed(f"{path} was answered with {answer.status}")
    return body
