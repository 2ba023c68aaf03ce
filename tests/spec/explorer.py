"""Explores every state that a model can reach, the nearest first."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

State = TypeVar("State", bound=Hashable)
Step = tuple[str, State]


class Explored(msgspec.Struct, frozen=True):
    """How many states and steps there are; where one is broken, how, and the shortest way to it."""

    states: int
    steps: int
    broken: str | None = None
    trace: tuple[str, ...] = ()


class _Explorer(Generic[State]):
    """The states seen so far, each with the step that first led to it."""

    def __init__(self, initial: State) -> None:
        self.origins: dict[State, tuple[str, State | None]] = {initial: ("", None)}
        self.frontier: deque[State] = deque([initial])
        self.steps = 0

    def found(self, broken: str | None = None, state: State | None = None) -> Explored:
        labels: list[str] = []
        while state is not None:
            label, state = self.origins[state]
            labels.append(label)
        trace = tuple(reversed(labels[:-1]))
        return Explored(len(self.origins), self.steps, broken, trace)


def explore(
    initial: State,
    steps: Callable[[State], Iterable[Step[State]]],
    broken: Callable[[State], str | None],
    stuck: Callable[[State], str | None],
) -> Explored:
    """Visit all states from the initial one on, until one is broken, or stuck at its end.

    Breadth first: the trace to a broken state is as short as any.
    """
    explorer = _Explorer(initial)
    while explorer.frontier:
        state = explorer.frontier.popleft()
        wrong = broken(state)
        followed = False
        for label, following in steps(state) if wrong is None else ():
            followed = True
            explorer.steps += 1
            if following not in explorer.origins:
                explorer.origins[following] = (label, state)
                explorer.frontier.append(following)
        if not followed:
            wrong = wrong or stuck(state)
        if wrong is not None:
            return explorer.found(wrong, state)
    return explorer.found()
