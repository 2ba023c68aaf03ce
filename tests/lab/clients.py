"""A small good client, and eight wrong ones: each differs from the good one in a single habit."""

import itertools
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from typing_extensions import override

from tests.support.clock import ManualClock

ATTEMPTS_MAX = 8
STATE = "the state that this client sent"


class GoodClient:
    """Sends, waits and connects as the interface demands; its pauses move a manual clock."""

    def __init__(self, http: httpx2.AsyncClient, clock: ManualClock, recipient: str) -> None:
        self._http = http
        self._clock = clock
        self._recipient = recipient

    async def send(self) -> httpx2.Response | None:
        """Send a transfer of three times 0.10; None if every attempt failed."""
        answer = None
        for attempt in range(ATTEMPTS_MAX):
            answer = await self._post("/transfers", attempt, to=self._recipient)
            if answer is not None and not self._may_retry(answer):
                return answer
            self._pause(attempt, answer)
        return answer

    async def create_charge_and_wait(self) -> str:
        """Create a charge, ask until its status is final, and return the status."""
        created = await self._post("/charges", 0)
        assert created is not None
        charge = created.json()
        while not self._is_done(charge):
            self._clock.advance(seconds=1)
            charge = (await self._http.get(f"/charges/{charge['id']}")).json()
        return str(charge["status"])

    async def list_transfers(self) -> list[str]:
        """Return the ids of all transfers."""
        ids: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await self._http.get("/transfers", params={"limit": "50", **cursor})).json()
            ids += [each["id"] for each in page["data"]]
            if not page["has_more"]:
                return ids
            cursor = {"cursor": page["next_cursor"]}

    async def handle_return(self, url: str, client_id: str, key: str) -> None:
        """Exchange the code with which a person returned, if the state is the one sent."""
        query = parse_qs(urlsplit(url).query)
        if self._is_own_state(query["state"][0]):
            await self._http.post(
                "/oauth/token",
                json={
                    "grant_type": "authorization_code",
                    "code": query["code"][0],
                    "redirect_uri": url.partition("?")[0],
                    "client_id": client_id,
                    "client_secret": key,
                },
            )

    async def _post(self, path: str, attempt: int, **fields: str) -> httpx2.Response | None:
        """Return the answer, or None if there is none."""
        headers = {"Content-Type": "application/json"} | self._headers(attempt)
        body = "".join(f'"{name}": "{value}", ' for name, value in fields.items())
        try:
            return await self._http.post(
                path, content=f'{{{body}"amount": {self._amount()}}}', headers=headers
            )
        except httpx2.TransportError:
            return None

    def _headers(self, _attempt: int) -> dict[str, str]:
        return {"Idempotency-Key": "payout-1"}

    def _amount(self) -> str:
        return str(3 * Decimal("0.10"))

    def _may_retry(self, answer: httpx2.Response) -> bool:
        return answer.status_code == 429 or answer.status_code >= 500

    def _pause(self, attempt: int, answer: httpx2.Response | None) -> None:
        asked = 0 if answer is None else int(answer.headers.get("retry-after", "0"))
        self._clock.advance(seconds=asked, micros=200_000 * 2**attempt)

    def _is_done(self, charge: dict[str, Any]) -> bool:
        return bool(charge["status"] != "created")

    def _is_own_state(self, state: str) -> bool:
        return state == STATE


class WithoutKey(GoodClient):
    """Sends no idempotency key."""

    @override
    def _headers(self, _attempt: int) -> dict[str, str]:
        return {}


class NewKeyOnEachTry(GoodClient):
    """Makes a new key for each attempt."""

    @override
    def _headers(self, attempt: int) -> dict[str, str]:
        return {"Idempotency-Key": f"payout-1-attempt-{attempt}"}


class WithoutBackoff(GoodClient):
    """Retries at once, unless it is told when to retry."""

    @override
    def _pause(self, attempt: int, answer: httpx2.Response | None) -> None:
        if answer is not None and "retry-after" in answer.headers:
            super()._pause(attempt, answer)


class IgnoresRetryAfter(GoodClient):
    """Backs off, but does not read Retry-After."""

    @override
    def _pause(self, attempt: int, answer: httpx2.Response | None) -> None:
        super()._pause(attempt, None)


class FloatAmounts(GoodClient):
    """Adds prices up as floats."""

    @override
    def _amount(self) -> str:
        return repr(sum([0.10, 0.10, 0.10]))


class PollsAfterFinal(GoodClient):
    """Goes on asking for a charge after its status is final."""

    def __init__(self, http: httpx2.AsyncClient, clock: ManualClock, recipient: str) -> None:
        super().__init__(http, clock, recipient)
        self._final_answers = itertools.count(1)

    @override
    def _is_done(self, charge: dict[str, Any]) -> bool:
        return charge["status"] != "created" and next(self._final_answers) > 5


class StateUnchecked(GoodClient):
    """Exchanges a code whatever state comes with it."""

    @override
    def _is_own_state(self, state: str) -> bool:
        return True


class SecretInPage(GoodClient):
    """Calls from a page, with the partner key in the page's script."""

    @override
    def _headers(self, attempt: int) -> dict[str, str]:
        browser = {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}
        return super()._headers(attempt) | browser
