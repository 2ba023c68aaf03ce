"""Following an account: its transfers in their order, as they happen, without an end.

The two kinds of `Follow` share their position and the steps that read the next page. They differ
only in how they run these steps.
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Self

from ousel_client.decoding import decode_page
from ousel_client.drivers import AsyncDriver, SyncDriver
from ousel_client.errors import ConnectionFailed, OuselError, ServerError, Throttled
from ousel_client.exchange import Request, Steps
from ousel_client.operations import decode_answer
from ousel_client.records import Page, Transfer
from ousel_client.retrying import (
    CallSettings,
    asked_seconds,
    is_closed,
    log_retry,
    send_with_retries,
)
from ousel_client.waiting import HELD_SECONDS_MAX, PAUSES

ORDER: Final = {"order": "oldest"}
ASKED_SECONDS_MAX: Final = 3_600.0  # the longest wait, even if Retry-After asks for more


class Position:
    """How far the account has been followed. `cursor` covers all transfers returned so far."""

    def __init__(self, settings: CallSettings, request: Request, cursor: str | None) -> None:
        """Continue after this cursor, or with the first transfer if there is none."""
        self.cursor = cursor
        self._settings = settings
        self._request = request
        self._page: deque[Transfer] = deque()
        self._cursor_after_page = cursor
        self._is_connected = False

    def _next_of_page(self) -> Transfer:
        transfer = self._page.popleft()
        self.cursor = str(transfer.sequence) if self._page else self._cursor_after_page
        return transfer

    def _read_page(self) -> Steps[None]:
        """Read the next page that has a transfer.

        Before the first answer, there are at most `attempts_max` attempts. Later failures are
        retried for as long as they last, because following has no end. From `attempts_max`
        failures in a row on, they are logged as warnings.
        """
        failures = unheld = 0
        pause_seconds = 0.0
        while not self._page:
            held_seconds = 0 if failures else HELD_SECONDS_MAX
            asked_at = self._settings.seconds()
            try:
                page = yield from self._ask(held_seconds, pause_seconds)
            except (ConnectionFailed, ServerError, Throttled) as error:
                failures += 1
                is_new = not self._is_connected
                if is_closed(error) or (is_new and failures >= self._settings.policy.attempts_max):
                    raise
                pause_seconds = self._pause_after(error, failures)
                is_long = failures >= self._settings.policy.attempts_max
                level = logging.WARNING if is_long else logging.INFO
                log_retry(self._request, error, failures, pause_seconds, level)
                continue
            self._is_connected = True
            self._page.extend(page.data)
            self._cursor_after_page = page.next_cursor or self._cursor_without_next(page)
            if not page.data:
                self.cursor = self._cursor_after_page
            # If the server does not delay its answers, poll.
            waited_seconds = self._settings.seconds() - asked_at - pause_seconds
            is_held = 0 < held_seconds < 2 * waited_seconds
            failures, unheld = 0, 0 if is_held else unheld + 1
            share = 0.5 + self._settings.random_share() / 2
            pause_seconds = 0.0 if is_held else PAUSES.delay_seconds(unheld, share)

    def _ask(self, held_seconds: int, pause_seconds: float) -> Steps[Page[Transfer]]:
        position = {} if self.cursor is None else {"cursor": self.cursor}
        request = replace(
            self._request,
            query={**self._request.query, **position},
            headers={"Prefer": f"wait={held_seconds}"} if held_seconds else {},
            held_seconds=held_seconds,
        )
        single = self._settings.without_retries()
        answer = yield from send_with_retries(single, request, pause_seconds)
        return decode_answer(decode_page, Transfer, answer)

    def _cursor_without_next(self, page: Page[Transfer]) -> str | None:
        """Return the cursor after this page: without one, all transfers would be returned again."""
        return str(page.data[-1].sequence) if page.data else self.cursor

    def _pause_after(self, error: OuselError, failures: int) -> float:
        pause_seconds = self._settings.policy.delay_seconds(failures, self._settings.random_share())
        return pause_seconds + min(asked_seconds(error), ASKED_SECONDS_MAX)


class Follow(Position):
    """Returns transfers as they happen, and blocks until there is one.

    Store `cursor` together with what you do about each transfer.
    """

    def __init__(
        self, driver: SyncDriver, settings: CallSettings, request: Request, cursor: str | None
    ) -> None:
        """Ask through this driver."""
        super().__init__(settings, request, cursor)
        self._driver = driver

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Transfer:
        """Return the next transfer."""
        if not self._page:
            self._driver.run(self._read_page())
        return self._next_of_page()


class AsyncFollow(Position):
    """Returns transfers as they happen, and waits until there is one.

    Store `cursor` together with what you do about each transfer.
    """

    def __init__(
        self, driver: AsyncDriver, settings: CallSettings, request: Request, cursor: str | None
    ) -> None:
        """Ask through this driver."""
        super().__init__(settings, request, cursor)
        self._driver = driver

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Transfer:
        """Return the next transfer."""
        if not self._page:
            await self._driver.run(self._read_page())
        return self._next_of_page()


def follow_query(filters: Mapping[str, str | int | None]) -> dict[str, str]:
    """Return the query that asks for the oldest transfers first, with these filters."""
    return ORDER | {name: str(value) for name, value in filters.items() if value is not None}
