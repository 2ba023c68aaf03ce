"""Server processes on their hosts, and the network between them and the clients."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from typing_extensions import override

from ousel.app.services import Services
from ousel.kernel.clock import SystemClock
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import Refusal
from ousel.kernel.settings import Settings
from ousel.ledger.batch import PostingResult
from ousel.ledger.rules import Posting
from tests.simulation.checker import Checker
from tests.simulation.loop import Scheduler, SimulatedLoop
from tests.simulation.trace import Trace

if TYPE_CHECKING:
    import asyncio

EPOCH_MICROS = 1_767_225_600_000_000  # the simulated time 0 is the beginning of 2026

NOTICED_SHARE = 0.7  # of the clients that hang up after their request has arrived

Handler = Callable[[Services], Awaitable[Any]]

sent_at: ContextVar[float] = ContextVar("sent_at")


class HostClock(SystemClock):
    """The clock of a machine, which can be moved."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.offset_micros = 0

    @override
    def __call__(self) -> int:
        return EPOCH_MICROS + self.elapsed_nanos() // 1_000 + self.offset_micros

    def elapsed_nanos(self) -> int:
        """Return the time since the start, which nobody can move."""
        return int(self._scheduler.now * 1e9)


class Reply(msgspec.Struct, frozen=True):
    """What a client gets: an answer, a refusal, a failure (500), or nothing."""

    kind: Literal["answer", "refusal", "failure", "nothing"]
    value: Any = None

    @property
    def is_unknown(self) -> bool:
        """Whether the client does not know what happened to its request."""
        if self.kind == "refusal":
            return bool(self.value.status >= 500)
        return self.kind != "answer"


NOTHING = Reply("nothing")


class Request:
    """A request on its way, and the client that waits for its answer."""

    __slots__ = ("answer", "arrived_at", "handler", "is_given_up", "name", "sent_at", "task")

    def __init__(self, name: str, handler: Handler, answer: "asyncio.Future[Reply]") -> None:
        self.name = name
        self.handler = handler
        self.answer = answer
        self.sent_at = 0.0
        self.arrived_at = 0.0
        self.is_given_up = False
        self.task: asyncio.Task[None] | None = None


class Process:
    """A server process: its event loop, and the real services."""

    def __init__(self, name: str, host_clock: HostClock, scheduler: Scheduler) -> None:
        self.name = name
        self.host_clock = host_clock
        self.loop = SimulatedLoop(scheduler)
        self.services: Services | None = None  # None until it has started
        self.clock_task: asyncio.Task[None] | None = None
        self.requests: dict[Request, None] = {}  # in the order in which they were sent

    @override
    def __repr__(self) -> str:
        return self.name

    def start(self, services: Services, checker: Checker) -> None:
        """Serve with these services; the checker observes each posting."""
        self.services = services
        queue = services.posting_queue
        post = queue.post

        async def observed_post(posting: Posting, *rest: Any, **named: Any) -> PostingResult:
            checker.posting_sent(posting, sent_at.get())
            try:
                result = await post(posting, *rest, **named)
            except Refusal as refusal:
                checker.posting_refused(posting, refusal.code)
                raise
            checker.posting_answered(posting, result)
            return result

        queue.post = observed_post  # type: ignore[method-assign]


class Network:
    """Carries requests and answers, late or not at all."""

    def __init__(
        self, scheduler: Scheduler, client_loop: SimulatedLoop, random: Random, trace: Trace
    ) -> None:
        self._scheduler = scheduler
        self._clients = client_loop
        self._random = random
        self._trace = trace
        self.loss = 0.0  # how likely a request or an answer is lost
        self.delay_seconds = 0.002
        self.request_count = 0
        self.deadline_seconds = Settings().deadline_seconds

    async def call(
        self, process: Process, name: str, handler: Handler, patience_seconds: float
    ) -> Reply:
        """Send a request to a process, and return what comes back in time."""
        self.request_count += 1
        answer: asyncio.Future[Reply] = self._clients.create_future()
        request = Request(name, handler, answer)
        request.sent_at = self._scheduler.now
        self._trace.add("send", name, "to", process)
        if process.loop.is_dead or process.services is None:
            self._clients.call_later(self._delay(), _settle, answer, NOTHING)
        elif not self._is_lost():
            process.requests[request] = None
            delay = self._delay()
            request.arrived_at = self._scheduler.now + delay
            process.loop.call_later(delay, self._deliver, process, request)
        timer = self._clients.call_later(patience_seconds, self._give_up, process, request)
        try:
            return await answer
        finally:
            timer.cancel()

    def reset(self, process: Process) -> None:
        """Break the connections of a process that was killed: most clients notice."""
        for request in process.requests:
            if self._random.random() < 0.8:
                self._clients.call_later(self._delay(), _settle, request.answer, NOTHING)

    def _deliver(self, process: Process, request: Request) -> None:
        if not request.is_given_up:
            request.task = process.loop.create_task(self._serve(process, request))

    async def _serve(self, process: Process, request: Request) -> None:
        assert process.services is not None
        sent_at.set(request.sent_at)
        # However late a process reads a request, the kernel knows when it arrived.
        set_deadline(request.arrived_at + self.deadline_seconds)
        try:
            reply = Reply("answer", await request.handler(process.services))
        except Refusal as refusal:
            reply = Reply("refusal", refusal)
        except Exception as error:  # noqa: BLE001 - the server answers 500
            reply = Reply("failure", error)
        process.requests.pop(request, None)
        if not self._is_lost():
            self._clients.call_later(self._delay(), self._answer, request, reply)

    def _answer(self, request: Request, reply: Reply) -> None:
        if not request.answer.done():
            value = reply.value
            detail = value.code if isinstance(value, Refusal) else reply.kind
            self._trace.add("answer", request.name, detail)
            request.answer.set_result(reply)

    def _give_up(self, process: Process, request: Request) -> None:
        """Hang up; most often the process notices, and cancels what it does for this client.

        If the client vanishes without a word, the process learns nothing. But bytes that have not
        reached the process are followed by the end of the connection, so it then sees both.
        """
        if not request.answer.done():
            self._trace.add("give up", request.name)
            request.answer.set_result(NOTHING)
            if request.task is None or self._random.random() < NOTICED_SHARE:
                process.loop.call_later(self._delay(), _cancel, request)

    def _delay(self) -> float:
        return self.delay_seconds * (0.1 + self._random.random())

    def _is_lost(self) -> bool:
        return bool(self.loss) and self._random.random() < self.loss


def _settle(answer: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not answer.done():
        answer.set_result(reply)


def _cancel(request: Request) -> None:
    request.is_given_up = True
    if request.task is not None:
        request.task.cancel()
