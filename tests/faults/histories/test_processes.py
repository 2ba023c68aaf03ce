"""Server processes are killed and paused under load; their answers form a correct history."""

import asyncio
import random
import signal
from pathlib import Path

import pytest

from tests.faults.histories.clients import Clients
from tests.faults.histories.verdict import assert_correct
from tests.faults.sizes import sized
from tests.support.figures import Figure
from tests.support.server import Server

pytestmark = pytest.mark.slow

GROUPS = 4
DISTURBANCES = sized(1, 20)
BETWEEN_SECONDS_MAX = 1.0
TRANSFERS_BETWEEN = 3


async def test_killed_and_paused_processes_give_no_wrong_answer(
    postgres_url: str, chance: random.Random, figure: Figure, tmp_path: Path
) -> None:
    """Two servers on one database; each is killed or paused in turn, and comes back."""
    servers = [Server(postgres_url, OUSEL_LOG_LEVEL="error") for _ in range(2)]
    clients = Clients(servers, chance.randrange(10**6))
    with servers[0], servers[1]:
        await clients.open_accounts(postgres_url, GROUPS)
        async with clients.running():
            for number in range(2 * DISTURBANCES):
                await clients.further(TRANSFERS_BETWEEN)
                await asyncio.sleep(chance.uniform(0, BETWEEN_SECONDS_MAX))
                await _disturb(servers[number % 2], kill=number < DISTURBANCES, chance=chance)
    histories = await clients.histories(postgres_url)

    assert clients.unexpected == []
    verdict = assert_correct(histories, tmp_path)
    operations = sum(len(history.operations) for history in histories)
    figure(
        f"histories: {operations} operations, {len(clients.acknowledgements)} transfers"
        f" acknowledged beside {DISTURBANCES} kills and {DISTURBANCES} pauses: {verdict};"
        f" refused {dict(clients.codes)}"
    )


async def _disturb(server: Server, *, kill: bool, chance: random.Random) -> None:
    if kill:
        server.process.kill()
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.__enter__)
    else:
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(chance.uniform(0, BETWEEN_SECONDS_MAX))
        server.process.send_signal(signal.SIGCONT)
