"""The worker processes of a server: start them, replace those that end, stop them together."""

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Final, Protocol

from ousel.kernel.logs import EventLogger

TICK_SECONDS: Final = 0.5
HEARTBEAT_SECONDS: Final = 0.25
SILENT_SECONDS_MAX: Final = 30  # includes the time that a worker takes to import the program

_READY: Final = b"ready"
_STARTING: Final = b"starting"

_spawn: Final = multiprocessing.get_context("spawn")
_log = EventLogger()


class RunningServer(Protocol):
    """A server that says whether it accepts requests, and which event loop it runs on."""

    started: bool
    servers: list[asyncio.Server]  # uvicorn fills it before it sets `started`


class Heartbeat:
    """The worker's end of the pipe: tells the supervisor that this process is alive.

    Once the server has started, its event loop must be running too: if the loop is stuck, the
    heartbeats end.
    """

    def __init__(self, pipe: Connection) -> None:
        """Send heartbeats into this pipe."""
        self._pipe = pipe

    def start(self, server: RunningServer) -> None:
        """Send heartbeats from a thread."""
        threading.Thread(target=self._send, args=(server,), daemon=True).start()

    def _send(self, server: RunningServer) -> None:
        loop_has_answered = threading.Event()
        loop_has_answered.set()
        try:
            while True:
                if not server.started:
                    self._pipe.send_bytes(_STARTING)
                elif loop_has_answered.is_set():
                    self._pipe.send_bytes(_READY)
                    loop_has_answered.clear()
                    server.servers[0].get_loop().call_soon_threadsafe(loop_has_answered.set)
                time.sleep(HEARTBEAT_SECONDS)
        except (OSError, RuntimeError):
            return  # the supervisor has died, or the event loop is closed


def stop_with_parent() -> None:
    """Ignore SIGHUP, which the parent handles, and stop when the parent has died.

    A worker that kept listening would block the port for the next server.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a worker process has a parent"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


class Worker:
    """One worker process, seen from the supervisor."""

    def __init__(self, serve: Callable[[Heartbeat], None]) -> None:
        """Start the process; both `serve` and what it refers to must be picklable."""
        self._pipe, heartbeat_pipe = _spawn.Pipe(duplex=False)
        self.process = _spawn.Process(target=serve, args=(Heartbeat(heartbeat_pipe),), daemon=True)
        self.process.start()
        heartbeat_pipe.close()  # the worker has its own copy
        self.is_ready = False
        self.silent_seconds = 0.0

    def read_heartbeats(self, elapsed_seconds: float) -> None:
        """Read the heartbeats that arrived, or add up the time without any."""
        self.silent_seconds += elapsed_seconds
        try:
            while self._pipe.poll():
                self.is_ready = self._pipe.recv_bytes() == _READY
                self.silent_seconds = 0.0
        except (OSError, EOFError):
            return  # the process is ending

    def is_starting(self) -> bool:
        """Return whether the process lives but does not accept requests yet."""
        return self.process.is_alive() and not self.is_ready

    def has_failed(self) -> bool:
        """Return whether the process has ended, or has been silent for too long."""
        return not self.process.is_alive() or self.silent_seconds > SILENT_SECONDS_MAX

    def kill(self) -> None:
        """End the process at once, even if it hangs."""
        self.process.kill()
        self.process.join()
        self._pipe.close()


class Supervisor:
    """Keeps a number of worker processes running until a signal stops them.

    SIGTERM and SIGINT stop all workers, which first answer the requests they have accepted. SIGHUP
    replaces the workers one after the other.
    """

    def __init__(
        self,
        serve: Callable[[Heartbeat], None],
        listener: socket.socket,
        count: int,
        stop_seconds_max: float,
    ) -> None:
        """Run `serve`, which uses the listener, in `count` processes.

        Each process gets `stop_seconds_max` to stop.
        """
        self._serve = serve
        self._listener = listener
        self._count = count
        self._stop_seconds_max = stop_seconds_max
        self._workers: list[Worker] = []
        self._must_stop = False
        self._must_replace = False

    def run(self) -> None:
        """Start the workers and supervise them; return when all of them have stopped."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        signal.signal(signal.SIGHUP, self._request_replacement)
        self._workers = [Worker(self._serve) for _ in range(self._count)]
        while not self._must_stop:
            if self._must_replace:
                self._must_replace = False
                self._replace_all()
            self._tick()
            self._restart_failed()
        self._stop_all()

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._must_stop = True

    def _request_replacement(self, _number: int, _frame: FrameType | None) -> None:
        self._must_replace = True

    def _tick(self) -> None:
        """Wait until one of the workers ends, for one tick at most; then read the heartbeats.

        If the supervisor itself was suspended, only one tick counts as silence of the workers.
        """
        started = time.monotonic()
        wait([worker.process.sentinel for worker in self._workers], TICK_SECONDS)
        elapsed_seconds = min(time.monotonic() - started, TICK_SECONDS)
        for worker in self._workers:
            worker.read_heartbeats(elapsed_seconds)

    def _restart_failed(self, *, except_for: Worker | None = None) -> None:
        """Replace the workers that have ended, or have sent no heartbeat for too long.

        A worker that cannot start is started again and again: the database was reachable when the
        server started, so it will probably be reachable again.
        """
        failed = [
            worker for worker in self._workers if worker is not except_for and worker.has_failed()
        ]
        if not all(worker.is_ready for worker in failed):
            time.sleep(TICK_SECONDS)  # do not try again in a tight loop
        for worker in failed:
            if self._must_stop:
                return
            worker.kill()
            _log.error(
                "a worker process ended or hung, and is replaced", exit_code=worker.process.exitcode
            )
            self._workers[self._workers.index(worker)] = Worker(self._serve)

    def _replace_all(self) -> None:
        """Replace the workers one after the other.

        Each worker ends before its successor starts, because both need the same admin port. If a
        successor does not become ready, the remaining workers stay.
        """
        for index, worker in enumerate(self._workers):
            worker.process.terminate()
            self._wait_while(worker, worker.process.is_alive, self._stop_seconds_max)
            if self._must_stop:
                return
            worker.kill()
            self._workers[index] = successor = Worker(self._serve)
            self._wait_while(successor, successor.is_starting, SILENT_SECONDS_MAX)
            if not successor.is_ready:
                if not self._must_stop:
                    not_replaced = len(self._workers) - index - 1
                    _log.error("not all worker processes were replaced", remaining=not_replaced)
                return

    def _wait_while(
        self, worker: Worker, condition: Callable[[], bool], seconds_max: float
    ) -> None:
        """Wait while the condition holds for the worker, and keep the other workers running.

        Stop waiting when the server must stop.
        """
        deadline = time.monotonic() + seconds_max
        while condition() and not self._must_stop and time.monotonic() < deadline:
            self._tick()
            self._restart_failed(except_for=worker)

    def _stop_all(self) -> None:
        """Stop all workers together, and kill those that do not end in time.

        The listener is closed first. While it is open here, the kernel accepts connections that no
        worker answers any more.
        """
        self._listener.close()
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + self._stop_seconds_max
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            worker.kill()
