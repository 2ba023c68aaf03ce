"""The log of refused calls, which the portal shows to the developers of each app."""

from collections import deque
from itertools import chain
from typing import Final

from ousel.api.callers import Partner, User
from ousel.api.route import Route
from ousel.database.port import Database
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.clock import Clock
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.partners import store
from ousel.partners.rules import ApiError

WAITING_MAX: Final = 1_000  # between two writes; of all apps


class ApiErrorLog:
    """Collects refused calls in memory; a background task writes them to the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Write to this database."""
        self._database = database
        self._clock = clock
        self._waiting: dict[str, deque[ApiError]] = {}  # by app

    def record(
        self, caller: Partner | User, route: Route, refusal: Refusal, request_id: str
    ) -> None:
        """Remember a refused call until the next write."""
        self._keep(
            ApiError(
                account_id=caller.app_account_id,
                app_id=caller.client_id,
                request_id=request_id,
                status=refusal.status,
                code=refusal.code,
                method=route.method,
                path=route.path,
                created_at=self._clock(),
            )
        )

    async def write(self) -> None:
        """Write the collected calls, and delete all but the newest of each app."""
        errors = self._all_waiting()
        self._waiting.clear()
        if not errors:
            return
        try:
            await run_to_end(  # a canceled write would be rolled back, and the errors lost
                self._database.write(lambda transaction: store.add_api_errors(transaction, errors))
            )
        except DatabaseUnavailable:  # nothing was written
            # In a cluster, those of one dead server would keep back those of all others.
            if not self._database.is_distributed():
                later = self._all_waiting()
                self._waiting.clear()
                for error in (*errors, *later):
                    self._keep(error)
            raise

    def _all_waiting(self) -> list[ApiError]:
        return list(chain.from_iterable(self._waiting.values()))

    def _keep(self, error: ApiError) -> None:
        """Add the call; if too many wait, drop the oldest one of the app that has the most.

        So an app with many refused calls does not push out the calls of others.
        """
        of_app = self._waiting.setdefault(error.app_id, deque(maxlen=store.API_ERRORS_MAX))
        of_app.append(error)
        if sum(map(len, self._waiting.values())) > WAITING_MAX:
            max(self._waiting.values(), key=len).popleft()
