"""Faults: what goes wrong in one simulation, and when; all of it follows from the seed."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.locks import LockOwner
from tests.simulation.server import IDLE_IN_TRANSACTION_SECONDS

if TYPE_CHECKING:
    from tests.simulation.world import World

Episode = Callable[["World", Random], Coroutine[None, None, None]]

DAY_SECONDS = 86_400


async def cause_faults(world: "World", random: Random) -> None:
    """Cause some kinds of faults, several times each, some of them at the same time."""
    kinds = POSTGRES_FAULTS if world.server is not None else SQLITE_FAULTS
    chosen = random.sample(kinds, k=random.randint(1, min(4, len(kinds))))
    episodes = [kind for kind in chosen for _ in range(random.randint(1, 3))]
    loop = asyncio.get_running_loop()
    starts = sorted(random.uniform(0, world.busy_seconds) for _ in episodes)
    running = []
    for start, episode in zip(starts, episodes, strict=True):
        await asyncio.sleep(start - loop.time())
        world.trace.add("fault", episode.__name__)
        running.append(loop.create_task(episode(world, Random(random.random()))))
    await asyncio.gather(*running)


async def kill_process(world: "World", random: Random) -> None:
    """Kill a process, and start it again."""
    index = random.randrange(len(world.processes))
    world.kill(index)
    await asyncio.sleep(random.choice([0.1, 5.0]) * random.random())
    await world.start(index)


async def kill_all_processes(world: "World", random: Random) -> None:
    """Kill all processes at once, and start them again."""
    for index in range(len(world.processes)):
        world.kill(index)
    await asyncio.sleep(random.random())
    for index in range(len(world.processes)):
        await world.start(index)


async def freeze_process(world: "World", random: Random) -> None:
    """Freeze a process, as a paused virtual machine is frozen."""
    process = random.choice(world.processes)
    process.loop.freeze()
    seconds = random.choice([0.5, 10.0, 20.0] if world.server is None else [0.5, 20.0, 90.0])
    if world.server is not None:
        world.loop.call_later(IDLE_IN_TRANSACTION_SECONDS, world.end_idle_transactions, process)
    await asyncio.sleep(seconds * random.random())
    process.loop.thaw()


async def move_host_clock(world: "World", random: Random) -> None:
    """Let the clock of a host jump, and correct it later."""
    clock = random.choice(world.processes).host_clock
    seconds = random.choice([0.01, 3.0, 300.0, 3.0 * 3600, 400.0 * DAY_SECONDS])
    world.checker.clock_moves()
    clock.offset_micros += int(random.choice([-1, 1]) * seconds * random.random() * 1e6)
    await asyncio.sleep(20.0 * random.random())
    world.checker.clock_moves()
    clock.offset_micros = 0


async def break_network(world: "World", random: Random) -> None:
    """Lose requests and answers between clients and processes, or delay them."""
    world.network.loss = random.choice([0.05, 0.3])
    world.network.delay_seconds = random.choice([0.002, 0.5, 5.0])
    await asyncio.sleep(15.0 * random.random())
    world.network.loss = 0.0
    world.network.delay_seconds = 0.002


async def break_commits(world: "World", random: Random) -> None:
    """Lose commits and their answers, and let commits take effect late."""
    assert world.server is not None
    faults = world.server.faults
    faults.request_lost = random.choice([0.0, 0.1, 0.3])
    faults.answer_lost = random.choice([0.0, 0.1, 0.5])
    faults.late = random.choice([0.0, 0.0, 0.1])
    faults.disconnected = random.choice([0.0, 0.02, 0.1])
    await asyncio.sleep(15.0 * random.random())
    faults.request_lost = faults.answer_lost = faults.late = faults.disconnected = 0.0


async def stop_server(world: "World", random: Random) -> None:
    """Stop the database server for a while."""
    assert world.server is not None
    world.server.stop()
    await asyncio.sleep(random.choice([0.3, 15.0]) * random.random())
    world.server.start()


async def switch_leader(world: "World", random: Random) -> None:
    """Let another server take over, which has missed the last commits; its clock differs."""
    server = world.server
    assert server is not None
    server.store.mark_replicated()
    server.faults.answer_lost = random.choice([0.0, 0.5, 0.8])
    await asyncio.sleep(random.choice([0.1, 1.0, 5.0]) * random.random())
    server.stop()
    world.checker.clock_moves()
    if random.random() < 0.8:
        kept = random.choice([0, 0, random.randint(0, len(server.store.commits))])
        server.store.lose_commits_after(kept)
        world.checker.tail_lost()
    world.move_database_clock(random.choice([0, -20_000, 3_000_000, -3_000_000]))
    await asyncio.sleep(random.choice([0.01, 0.5]) * random.random())
    server.start()
    await asyncio.sleep(3.0 * random.random())
    server.faults.answer_lost = 0.0


async def lock_rows(world: "World", random: Random) -> None:
    """Hold the locks of some accounts, as an operator's session might."""
    assert world.server is not None
    everybody = world.population.everybody
    owner = LockOwner()
    for person in random.sample(everybody, k=random.choice([1, 1, 2])):
        world.server.locks.take_free([("accounts", person.account_id)], owner)
    await asyncio.sleep(random.choice([3.0, 20.0, 90.0]) * random.random())
    world.server.locks.release_all(owner)


async def fail_flushes(world: "World", random: Random) -> None:
    """Let flushes fail or take long; sometimes all processes are killed soon afterwards."""
    file = world.file
    assert file is not None
    file.flush_errors = random.choice([0.05, 0.3, 1.0])
    file.flush_seconds = random.choice([0.001, 0.05, 2.0])
    for _ in range(random.choice([20, 500])):
        await asyncio.sleep(0.01)
        if file.unflushed is not None and random.random() < 0.5:
            await kill_all_processes(world, random)
            break
    file.flush_errors = 0.0
    file.flush_seconds = 0.001


async def hold_write_lock(world: "World", random: Random) -> None:
    """Hold the write lock of the file, as another program might."""
    file = world.file
    assert file is not None
    other = object()
    while file.writer is not None:  # noqa: ASYNC110 - simulated time costs nothing
        await asyncio.sleep(0.001)
    file.writer = other
    await asyncio.sleep(random.choice([0.1, 15.0]) * random.random())
    file.writer = None


POSTGRES_FAULTS: list[Episode] = [
    kill_process,
    freeze_process,
    move_host_clock,
    break_network,
    break_commits,
    stop_server,
    switch_leader,
    lock_rows,
]
SQLITE_FAULTS: list[Episode] = [
    kill_process,
    kill_all_processes,
    freeze_process,
    move_host_clock,
    break_network,
    fail_flushes,
    hold_write_lock,
]
