"""The log of refused calls, which the portal shows to the developers of each app."""

from collections import deque
from typing import Final

from ousel.api.callers import Partner, User
from ousel.api.route import Route
from ousel.database.port import Database
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.clock import Clock
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.partners import store
from ousel.partners.rules import ApiError

WAITING_MAX: Final = 1_000  # between two writes; beyond that, the oldest are dropped


class ApiErrorLog:
    """Collects refused calls in memory; a background task writes them to the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Write to this database."""
        self._database = database
        self._clock = clock
        self._waiting: deque[ApiError] = deque(maxlen=WAITING_MAX)

    def record(
        self, caller: Partner | User, route: Route, refusal: Refusal, request_id: str
    ) -> None:
        """Remember a refused call until the next write."""
        self._waiting.append(
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
        errors = list(self._waiting)
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
                self._waiting = deque([*errors, *self._waiting], maxlen=WAITING_MAX)
            raise
