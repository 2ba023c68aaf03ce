"""Pages: how long the portal takes to answer each of them, and how many bytes it sends."""

import re
import urllib.request
from collections.abc import Iterator
from typing import Final

import msgspec

from bench.cases import BenchEnvironment, MeasuredLedger
from ousel.workload import plans
from ousel.workload.processes import Server, run_load_process

MOVEMENTS: Final = 300
SECONDS_MAX: Final = 0.3  # each page is answered by one process, one request at a time
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


def measure_pages(stage: BenchEnvironment, seconds: float) -> Iterator[PageResult]:
    """Yield the result of each page, for an account with hundreds of movements."""
    for ledger in stage.ledgers.values():
        stage.send_transfers(ledger, MOVEMENTS)
        names = {
            "app": ledger.fixtures.app_id,
            "charge": ledger.fixtures.charges[0],
            "entry": "5",
        }
        cookie = {"Cookie": f"ousel_session={ledger.fixtures.owner_session}"}
        for paths, headers in ((SIGNED_IN, cookie), (SIGNED_OUT, {})):
            for path in paths:
                shown = path if headers else f"{path}, signed out"
                yield _measure(ledger, shown, path.format_map(names), headers, seconds)


def _measure(
    ledger: MeasuredLedger, shown: str, path: str, headers: dict[str, str], seconds: float
) -> PageResult:
    page = _get(ledger.server, path, headers)
    assets = {_get(ledger.server, found, {}) for found in _ASSETS.findall(page.decode())}
    plan = plans.read_plan(ledger.server, [(path, headers)], 1, min(seconds, SECONDS_MAX))
    return PageResult(
        engine=ledger.engine,
        page=shown,
        p50_milliseconds=run_load_process(plan).p50_seconds * _MILLIS,
        page_bytes=len(page),
        asset_bytes=sum(map(len, assets)),
    )


def _get(server: Server, path: str, headers: dict[str, str]) -> bytes:
    """Return the answer's body, as it was sent."""
    url = f"http://127.0.0.1:{server.port}{path}"
    request = urllib.request.Request(url, headers=headers | {"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
        return bytes(answer.read())
