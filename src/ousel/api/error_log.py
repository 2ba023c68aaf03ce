"""The port by which refused calls are told to the partner whose app made them."""

from typing import Protocol

from ousel.api.callers import Partner, User
from ousel.api.routes import Route
from ousel.kernel.errors import Refusal


class ApiErrorRecorder(Protocol):
    """Takes note of refused calls; the composition root passes the one who does."""

    def record(
        self, caller: Partner | User, route: Route, refusal: Refusal, request_id: str
    ) -> None:
        """Take note of a refused call."""
        ...
