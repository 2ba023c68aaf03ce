"""The deadline of a request: a request whose commit has not begun by then is refused.

The deadline is stored with the task that answers the request, so it is not passed as an argument.
"""

import asyncio
import math
from contextvars import ContextVar
from typing import Final

from ousel.kernel.errors import DeadlineExceeded

NO_DEADLINE: Final = math.inf

_deadline: ContextVar[float] = ContextVar("deadline", default=NO_DEADLINE)


def set_deadline(deadline: float) -> None:
    """Set the deadline of the request that this task answers, in the event loop's time."""
    _deadline.set(deadline)


def current_deadline() -> float:
    """Return the deadline of the request that this task answers."""
    return _deadline.get()


def check_deadline(deadline: float | None = None) -> None:
    """Raise DeadlineExceeded if this deadline has passed; the default is that of the request."""
    if deadline is None:
        deadline = _deadline.get()
    if deadline <= asyncio.get_running_loop().time():
        raise deadline_exceeded()


def deadline_exceeded() -> DeadlineExceeded:
    """Return the refusal of a request whose deadline has passed."""
    return DeadlineExceeded(
        "The request could not be carried out in time, so nothing was written.",
        retry_after_seconds=1,
    )
