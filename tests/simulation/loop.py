"""Event loops on simulated time: one for each process, all run by one scheduler."""

import asyncio
import contextlib
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple

from typing_extensions import override

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class SimulatedHandle(asyncio.TimerHandle):
    """A callback that is to run on one process, at once or at a later time."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "loop", "time")

    def __init__(
        self,
        loop: "SimulatedLoop",
        time: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        self.loop = loop
        self.time = time
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    @override
    def cancel(self) -> None:
        self.is_cancelled = True

    @override
    def cancelled(self) -> bool:
        return self.is_cancelled

    @override
    def when(self) -> float:
        return self.time


class Scheduler:
    """Runs callbacks one after the other; when none is ready, time advances to the next one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._ready: deque[SimulatedHandle] = deque()
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        self._timer_count = 0
        self._is_stopped = False
        self.loops: list[SimulatedLoop] = []
        self.errors: list[BaseException] = []  # of callbacks, or of tasks that nobody awaited

    def add_ready(self, handle: SimulatedHandle) -> None:
        """Run the callback after those that are ready already."""
        self._ready.append(handle)

    def add_timer(self, handle: SimulatedHandle) -> None:
        """Run the callback at its time; of two with the same time, the first added runs first."""
        self._timer_count += 1
        heapq.heappush(self._timers, (handle.time, self._timer_count, handle))

    def stop(self) -> None:
        """Run no further callback."""
        self._is_stopped = True

    def close(self) -> None:
        """Close what was left when the simulation stopped."""
        for loop in self.loops:
            loop.is_dead = True
        for loop in self.loops:
            loop.close_tasks()
        self._ready.clear()
        self._timers.clear()

    def run(self) -> None:
        """Run until `stop` is called, or until nothing is left to do."""
        ready, timers = self._ready, self._timers
        running: SimulatedLoop | None = None
        try:
            while not self._is_stopped:
                if not ready:
                    if not timers:
                        return
                    time, _, handle = heapq.heappop(timers)
                    self.now = max(self.now, time)
                else:
                    handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                loop = handle.loop
                if loop.is_dead:
                    continue
                if loop.is_frozen:
                    loop.stalled.append(handle)
                    continue
                if loop is not running:
                    events._set_running_loop(loop)  # noqa: SLF001 - it has no public name
                    running = loop
                self.steps += 1
                handle.context.run(handle.callback, *handle.args)
        finally:
            events._set_running_loop(None)  # noqa: SLF001


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of one process, which can be frozen and killed.

    It has nothing of its base class but the type: there are no sockets, signals or threads.
    """

    def __init__(self, scheduler: Scheduler) -> None:  # the base class would open sockets
        self.scheduler = scheduler
        self.is_frozen = False
        self.is_dead = False
        self.stalled: list[SimulatedHandle] = []
        self._tasks: list[asyncio.Task[Any]] = []  # of a killed process: never resumed
        scheduler.loops.append(self)

    def freeze(self) -> None:
        """Run no callback until `thaw`; time passes nevertheless."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Run what has become ready meanwhile."""
        self.is_frozen = False
        stalled, self.stalled = self.stalled, []
        for handle in stalled:
            self.scheduler.add_ready(handle)

    def kill(self) -> None:
        """Never run a callback again, not even the `finally` of a coroutine."""
        self._tasks = list(asyncio.all_tasks(self))  # kept, since garbage collection closes them
        self.is_dead = True
        self.stalled = []

    def close_tasks(self) -> None:
        """Close the coroutines of all tasks that have not ended, ignoring what they do then."""
        events._set_running_loop(self)  # noqa: SLF001
        for task in [*self._tasks, *asyncio.all_tasks(self)]:
            task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001
            with contextlib.suppress(Exception):
                task.get_coro().close()
        events._set_running_loop(None)  # noqa: SLF001

    @override
    def time(self) -> float:
        return self.scheduler.now

    @override
    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = SimulatedHandle(self, self.scheduler.now, callback, args, context)
        self.scheduler.add_ready(handle)
        return handle

    @override
    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    @override
    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = SimulatedHandle(self, when, callback, args, context)
        self.scheduler.add_timer(handle)
        return handle

    @override
    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.scheduler.now + delay, callback, *args, context=context)

    @override
    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    @override
    def create_task(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[Result]":
        del name
        return asyncio.Task(coro, loop=self, context=context)

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self.is_dead:
            self.scheduler.errors.append(error)

    @override
    def get_debug(self) -> bool:
        return False

    @override
    def is_running(self) -> bool:
        return events._get_running_loop() is self  # noqa: SLF001

    @override
    def is_closed(self) -> bool:
        return self.is_dead
