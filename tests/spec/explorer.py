"""Explores every state that a model can reach, breadth first."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

State = TypeVar("State", bound=Hashable)
Step = tuple[str, State]


class Exploration(msgspec.Struct, frozen=True):
    """How many states and steps there are, and the first violation with the shortest way to it."""

    states: int
    steps: int
    violation: str | None = None
    trace: tuple[str, ...] = ()


class _Explorer(Generic[State]):
    """The states seen so far, each with the step that first led to it."""

    def __init__(self, initial: State) -> None:
        self.origins: dict[State, tuple[str, State | None]] = {initial: ("", None)}
        self.frontier: deque[State] = deque([initial])
        self.steps = 0

    def result(self, violation: str | None = None, state: State | None = None) -> Exploration:
        labels: list[str] = []
        while state is not None:
            label, state = self.origins[state]
            labels.append(label)
        trace = tuple(reversed(labels[:-1]))
        return Exploration(len(self.origins), self.steps, violation, trace)


def explore(
    initial: State,
    steps: Callable[[State], Iterable[Step[State]]],
    violation: Callable[[State], str | None],
    deadlock: Callable[[State], str | None],
) -> Exploration:
    """Visit all states from the initial one on, until one violates a property or is a deadlock.

    The search is breadth first, so no trace to such a state is shorter.
    """
    explorer = _Explorer(initial)
    while explorer.frontier:
        state = explorer.frontier.popleft()
        found = violation(state)
        followed = False
        for label, following in steps(state) if found is None else ():
            followed = True
            explorer.steps += 1
            if following not in explorer.origins:
                explorer.origins[following] = (label, state)
                explorer.frontier.append(following)
        if not followed:
            found = found or deadlock(state)
        if found is not None:
            return explorer.result(found, state)
    return explorer.result()
