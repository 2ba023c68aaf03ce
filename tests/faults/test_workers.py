"""A server of several processes goes on serving, whichever process ends."""

import asyncio
import signal
import socket
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import FULL
from tests.support.ports import free_port
from tests.support.postgres_server import PostgresServer
from tests.support.raw_sql import RawSql
from tests.support.seeded import seed_database
from tests.support.server import Server
from tests.support.waiting import until, until_blocked

pytestmark = pytest.mark.slow

SEVERAL = "--workers=2"
HANGING_SECONDS_MAX = 90.0
LOCK = "SELECT id FROM accounts WHERE username = ? FOR UPDATE"


@pytest.fixture
def fragile_url(postgres: PostgresServer) -> str:
    """A database on a PostgreSQL server that the test can stop."""
    return postgres.fresh_url()


async def test_processes_that_die_while_postgres_is_away_come_back_with_it(
    postgres: PostgresServer, fragile_url: str
) -> None:
    """A process that cannot start without the database is started again; the others go on."""
    with Server(fragile_url, SEVERAL) as server:
        postgres.stop_immediately()
        killed = _workers(server)
        for worker in killed:
            worker.kill()
        await until(lambda: not _alive(killed) and _workers(server))
        replaced = _workers(server)
        await until(lambda: not _alive(replaced))
        postgres.start()
        await until(server.is_ready)


async def test_processes_are_replaced_if_their_parent_is_hung_up(postgres_url: str) -> None:
    """A SIGHUP to the processes alone ends none; after one to the parent, each is replaced.

    A closed terminal signals every process. No transfer is refused or doubled.
    """
    admin = free_port()
    seeded = await seed_database(postgres_url)
    with Server(postgres_url, SEVERAL, f"--admin-port={admin}") as server:
        await until(lambda: _are_watched(admin))
        load = Load(seeded, server.port)
        async with load.running():
            await load.progress()
            before = _workers(server)
            for worker in before:
                worker.send_signal(signal.SIGHUP)
            await load.progress()
            assert _workers(server) == before
            assert load.lost == 0
            server.process.send_signal(signal.SIGHUP)
            await until(lambda: not _alive(before))
            await load.progress()
        await until(lambda: _are_watched(admin))
        assert len(_workers(server)) == len(before)

    await assert_settled_exactly_once(load)
    assert not load.refused


@pytest.mark.skipif(not FULL, reason="it waits for a minute: make faults does")
async def test_a_process_that_hangs_is_replaced_with_the_others(postgres_url: str) -> None:
    """After SIGHUP a process that does not end in time is killed, and the server goes on."""
    with Server(postgres_url, SEVERAL) as server:
        before = _workers(server)
        before[0].suspend()
        server.process.send_signal(signal.SIGHUP)
        await asyncio.to_thread(psutil.wait_procs, before, HANGING_SECONDS_MAX)
        assert not _alive(before)
        await until(lambda: len(_workers(server)) == len(before))


async def test_a_process_that_dies_while_another_is_replaced_comes_back(postgres_url: str) -> None:
    """It does not have to wait for a process that takes long to stop."""
    with Server(postgres_url, SEVERAL) as server:
        before = _workers(server)
        for worker in before:
            worker.suspend()
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: any(map(_is_told_to_stop, before)))
        [stopping] = filter(_is_told_to_stop, before)
        [other] = set(before) - {stopping}
        other.kill()
        await until(lambda: set(_workers(server)) - set(before))
        assert _alive([stopping])
        stopping.resume()
        await until(server.is_ready)


async def test_a_server_that_is_stopped_replaces_no_more_processes(postgres_url: str) -> None:
    """SIGTERM takes effect at once, even after SIGHUP."""
    with Server(postgres_url, SEVERAL) as server:
        server.process.send_signal(signal.SIGHUP)
        server.process.send_signal(signal.SIGTERM)
        log = server.stop()

    assert log.count("Started server process") <= 2


async def test_a_server_that_is_stopping_refuses_connections(postgres_url: str) -> None:
    """While it answers what it has accepted, a proxy learns at once that it must go elsewhere."""
    seeded = await seed_database(postgres_url)
    with Server(postgres_url, SEVERAL) as server:
        async with RawSql(postgres_url) as somebody, server.client(seeded.key) as client:
            await somebody.run("BEGIN")
            await somebody.run(LOCK, seeded.people[0])
            body = {"to": f"@{seeded.people[0]}", "amount": 1}
            sending = asyncio.create_task(client.post("/transfers", json=body))
            await until_blocked(postgres_url)
            server.process.send_signal(signal.SIGTERM)
            await until(lambda: _refuses_connections(server))
            is_waiting = not sending.done()  # unless the machine has stalled until the deadline
            await somebody.run("ROLLBACK")
            expected = HTTPStatus.CREATED if is_waiting else HTTPStatus.SERVICE_UNAVAILABLE
            assert (await sending).status_code == expected


async def test_a_server_whose_parent_is_killed_leaves_its_port(postgres_url: str) -> None:
    """Its processes end by themselves, so that the next server finds the port free."""
    with Server(postgres_url, SEVERAL) as server:
        workers = _workers(server)
        server.process.kill()
        await until(lambda: not _alive(workers))
        with socket.create_server(("127.0.0.1", server.port)):
            pass


def _refuses_connections(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port)).close()
    except ConnectionRefusedError:
        return True
    return False


def _workers(server: Server) -> list[psutil.Process]:
    """Return the server's processes, without those that have ended."""
    workers = []
    for child in psutil.Process(server.process.pid).children():
        with suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(child.cmdline()):
                workers.append(child)
    return workers


def _alive(processes: list[psutil.Process]) -> bool:
    return any(map(psutil.Process.is_running, processes))


def _is_told_to_stop(process: psutil.Process) -> bool:
    """Return whether this process, which is suspended, will get a SIGTERM when it is resumed."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    [pending] = (line.split()[1] for line in lines if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) & 1 << signal.SIGTERM - 1)


def _are_watched(admin: int) -> bool:
    """Return whether both processes answer at their admin ports."""
    with suppress(httpx2.TransportError):
        addresses = [f"http://127.0.0.1:{port}/healthz" for port in (admin, admin + 1)]
        answers = [httpx2.get(address, verify=False) for address in addresses]
        return all(answer.status_code == HTTPStatus.OK for answer in answers)
    return False
