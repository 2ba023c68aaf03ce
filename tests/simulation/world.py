"""One simulation from its seed: it sets everything up, runs it, and reports what went wrong."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ousel.app.services import Services
from ousel.database.clock import MEASURE_SECONDS, PostgresClock
from ousel.database.port import Database
from ousel.database.sqlite import SqliteDatabase
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.settings import Settings
from tests.simulation.callers import Surroundings
from tests.simulation.checker import Checker
from tests.simulation.clients import Client
from tests.simulation.faults import cause_faults
from tests.simulation.loop import Scheduler, SimulatedLoop
from tests.simulation.network import EPOCH_MICROS, HostClock, Network, Process
from tests.simulation.patches import Patch, patched, simulated_machine
from tests.simulation.population import population
from tests.simulation.postgres import SimulatedPostgres
from tests.simulation.server import PostgresServer
from tests.simulation.sqlite_driver import SimulatedCommitThread, SqliteFile
from tests.simulation.store import Store
from tests.simulation.trace import Trace

REQUESTS = 1_000
CLIENTS_MAX = 8
SETTLE_SECONDS = 60.0  # until everything that is still on its way has ended
SQLITE_SHARE = 0.3
_PATH = Path("/nonexistent/simulated.db")


class Result(msgspec.Struct, frozen=True):
    """How a simulation ended."""

    seed: int
    engine: str
    requests: int
    simulated_seconds: float
    commits: int
    violation: str | None
    trace: Trace

    def report(self, lines: int | None = 60) -> str:
        """Return the violation with the seed and the last steps."""
        headline = f"seed {self.seed} ({self.engine}): {self.violation}"
        return "\n".join([headline, *self.trace.lines(lines)])


class World:
    """Everything that takes part in one simulation."""

    def __init__(self, seed: int, requests: int = REQUESTS) -> None:
        self.seed = seed
        random = Random(seed)
        self._random = random
        self.scheduler = Scheduler()
        self.loop = SimulatedLoop(self.scheduler)  # of clients, servers and faults
        self.trace = Trace(lambda: self.scheduler.now)
        self.population = population()
        self.store = Store(self.population.image, self.database_clock)
        self.database_offset_micros = 0
        self._earlier_offsets: list[tuple[float, int]] = []  # until when they may be followed
        self.checker = Checker(
            self.store, self.trace, lambda: self.scheduler.now, self.scheduler.stop
        )
        self.checker.database_clock = self.database_clock
        self.checker.estimated_clock = self.estimated_clock
        self.network = Network(self.scheduler, self.loop, self._fork(), self.trace)
        self.server: PostgresServer | None = None
        self.file: SqliteFile | None = None
        self._set_up_engine(is_sqlite=random.random() < SQLITE_SHARE)
        self.batch_items_max = random.choice([3, 10, 1_000])
        self.settings = Settings(queue_limit=random.choice([20, 10_000, 10_000]))
        self.processes: list[Process] = []
        self.requests = requests
        self.busy_seconds = random.choice([5.0, 20.0, 60.0])  # about how long clients send

    def database_clock(self) -> int:
        """Return the time by the clock that dates what is written."""
        if self.server is None:
            return self.processes[0].host_clock()
        return EPOCH_MICROS + int(self.scheduler.now * 1e6) + self.database_offset_micros

    def move_database_clock(self, micros: int) -> None:
        """Set the clock of a new leader; processes follow the old one until they measure again."""
        now = self.scheduler.now
        self._earlier_offsets.append((now + 2 * MEASURE_SECONDS, self.database_offset_micros))
        self.database_offset_micros = micros

    def estimated_clock(self) -> int:
        """Return the latest time that a process may take for the database's."""
        now = self.scheduler.now
        offsets = [offset for until, offset in self._earlier_offsets if now <= until]
        behind = self.database_offset_micros - max(offsets, default=self.database_offset_micros)
        return self.database_clock() - min(behind, 0)

    def run(self, *planted: Patch) -> Result:
        """Run the simulation to its end, or to the first violation."""
        machine = simulated_machine(
            lambda: self.scheduler.now,
            self._fork(),
            self._connect,
            self._commit_thread,
            self.batch_items_max,
        )
        with patched(*machine, *planted):
            main = self.loop.create_task(self._main())
            self.scheduler.run()
        if self.checker.violation is None:
            for error in (*self.scheduler.errors, main.exception() if main.done() else None):
                if error is not None:
                    raise error
            assert main.done(), "the simulation has stopped before its end"
        return Result(
            seed=self.seed,
            engine="sqlite" if self.server is None else "postgres",
            requests=self.network.request_count,
            simulated_seconds=self.scheduler.now,
            commits=self.store.commit_count,
            violation=self.checker.violation,
            trace=self.trace,
        )

    def kill(self, index: int) -> None:
        """Kill a process at once."""
        process = self.processes[index]
        if process.loop.is_dead:
            return
        self.trace.add("kill", process)
        process.loop.kill()
        self.network.reset(process)
        if self.server is not None:
            self.server.break_sessions_of(process)
        if self.file is not None:
            self.file.kill(process)

    async def start(self, index: int) -> None:
        """Start a process where another one was killed."""
        old = self.processes[index]
        if old.loop.is_dead:
            name = f"{old.name}'"
            self.processes[index] = process = Process(name, old.host_clock, self.scheduler)
            await self._open(process)

    def end_idle_transactions(self, process: Process) -> None:
        """Let the server end the transactions of a process that is still frozen."""
        if self.server is not None and process.loop.is_frozen:
            self.server.break_sessions_of(process)

    async def _main(self) -> None:
        await self._start_processes()
        count = self._random.randint(2, CLIENTS_MAX)
        around = Surroundings(
            everybody=self.population.everybody,
            partners=self.population.partners,
            network=self.network,
            checker=self.checker,
            processes=self.processes,
            now=self.loop.time,
            requests=self.requests,
            pace=self.requests / self.busy_seconds / count,
        )
        clients = [Client(f"c{number}", self._fork(), around) for number in range(1, count + 1)]
        faults = self.loop.create_task(cause_faults(self, self._fork()))
        await asyncio.gather(*(client.run() for client in clients))
        await faults
        await asyncio.sleep(SETTLE_SECONDS)
        self.checker.finished()
        self.scheduler.stop()

    def _set_up_engine(self, *, is_sqlite: bool) -> None:
        if is_sqlite:
            self.file = SqliteFile(self.store, self._fork(), self.trace)
            self.file.observers.append(self.checker.committed)
        else:
            self.server = PostgresServer(self.store, self.loop, self._fork(), self.trace)
            self.server.observers.append(self.checker.committed)

    async def _start_processes(self) -> None:
        count = self._random.choice([1, 2, 2] if self.server is None else [1, 2, 3])
        clock = HostClock(self.scheduler)
        for number in range(1, count + 1):
            own = clock if self.server is None else HostClock(self.scheduler)
            self.processes.append(Process(f"p{number}", own, self.scheduler))
        for process in self.processes:
            await self._open(process)

    async def _open(self, process: Process) -> None:
        """Open the process's database, which on SQLite recovers the log, and start serving."""
        self._opening = process
        if self.server is None:
            database = SqliteDatabase(_PATH)
            await database.open()
            self._serve(process, database, process.host_clock)
        else:
            process.clock_task = process.loop.create_task(
                self._connect_to_server(process, self.server)
            )

    async def _connect_to_server(self, process: Process, server: PostgresServer) -> None:
        """Serve once the database's clock was measured, and measure it every minute."""
        database = SimulatedPostgres(server, process)
        host_clock = process.host_clock
        clock = PostgresClock(database, host_clock, host_clock.elapsed_nanos)
        while True:
            try:
                await clock.measure()
            except Refusal:
                await asyncio.sleep(1.0)
                continue
            if process.services is None:
                self._serve(process, database, clock)
            await asyncio.sleep(MEASURE_SECONDS)

    def _serve(self, process: Process, database: Database, clock: Clock) -> None:
        services = Services(self.settings, database, clock, len(self.processes))
        process.start(services, self.checker)
        self.trace.add("start", process)

    def _connect(self, _: object) -> Any:
        assert self.file is not None
        return self.file.open(self._opening)

    def _commit_thread(self, _: str) -> SimulatedCommitThread:
        assert self.file is not None
        return SimulatedCommitThread(self.file, self._opening.loop)

    def _fork(self) -> Random:
        return Random(self._random.random())


def simulate(seed: int, *planted: Patch, requests: int = REQUESTS) -> Result:
    """Run the simulation of this seed, with these patches as planted bugs."""
    world = World(seed, requests)
    try:
        return world.run(*planted)
    finally:
        world.scheduler.close()
        world.store.close()
