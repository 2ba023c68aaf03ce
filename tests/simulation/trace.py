"""The steps of one simulation, to be printed when it fails."""

import hashlib
from collections.abc import Callable


class Trace:
    """Collects steps with their times."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._steps: list[tuple[object, ...]] = []

    def add(self, *step: object) -> None:
        """Add a step."""
        self._steps.append((self._now(), *step))

    def lines(self, last: int | None = None) -> list[str]:
        """Return the last steps, one line each."""
        steps = self._steps if last is None else self._steps[-last:]
        return [f"{step[0]:12.6f}  {' '.join(map(str, step[1:]))}" for step in steps]

    def digest(self) -> str:
        """Return a hash of all steps: two runs with the same hash took the same steps."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()
