"""The interface that records refused calls, which partners can then see in the portal."""

from typing import Protocol

from ousel.api.callers import Partner, User
from ousel.api.route import Route
from ousel.kernel.errors import Refusal


class ApiErrorRecorder(Protocol):
    """Records refused calls."""

    def record(
        self, caller: Partner | User, route: Route, refusal: Refusal, request_id: str
    ) -> None:
        """Record a refused call."""
        ...
