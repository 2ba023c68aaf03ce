"""A crowd of clients that connect or hang up at the same moment does not delay the others."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from itertools import pairwise

import pytest

from ousel.http.turns import TURNS_PER_ROUND, Turns
from tests.http.echo_server import WAYS_TO_HANG_UP, EchoClient, EchoServer, get, post
from tests.support.loop_time import LoopTime
from tests.support.waiting import until, until_next_iteration

CROWD = 20 * TURNS_PER_ROUND


async def test_a_crowd_of_new_connections_waits_for_its_turn(echo_server: EchoServer) -> None:
    """A request on an older connection is begun after a few of theirs, though it came last."""
    requests = echo_server.application.requests
    async with AsyncExitStack() as stack:
        old, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(get("/new"))
        old.send(get("/old"))
        await until(lambda: len(requests) == CROWD + 2)

    paths = [request.path for request in requests]
    assert paths.index("/old") <= 3 * TURNS_PER_ROUND


@pytest.mark.parametrize("way", WAYS_TO_HANG_UP)
async def test_a_crowd_that_hangs_up_is_canceled_in_turns(
    echo_server: EchoServer, way: str
) -> None:
    """A request that arrives after the first hang-up is begun before most of them are canceled."""
    application, state = echo_server.application, echo_server.state
    async with AsyncExitStack() as stack:
        old, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(get("/slow"))
        await until(lambda: len(application.requests) == CROWD + 1)
        for client in crowd:
            client.hang_up(way)
        echo_server.progress.clear()
        await echo_server.progress.wait()
        old.send(get("/old"))
        await old.answer()
        await until(lambda: not state.tasks and len(state.connections) == 1)

    assert application.cancels == CROWD
    assert application.cancels_before["/old"] < CROWD / 2


@pytest.mark.parametrize("way", ["close", "half-close"])
async def test_a_crowd_that_closes_its_idle_connections_is_let_go_in_turns(
    echo_server: EchoServer, way: str
) -> None:
    """In each iteration of the event loop, only a few connections are closed."""
    connections = echo_server.state.connections
    async with AsyncExitStack() as stack:
        _, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(get("/once"))
            await client.answer()
        for client in crowd:
            client.hang_up(way)
        counts = [len(connections)]
        while counts[-1] > 1:
            await until_next_iteration(lambda: len(connections) < counts[-1])
            counts.append(len(connections))

    assert max(before - after for before, after in pairwise(counts)) <= 2 * TURNS_PER_ROUND


@pytest.mark.parametrize("way", WAYS_TO_HANG_UP)
async def test_a_request_that_may_write_is_canceled_at_once(
    echo_server: EchoServer, way: str
) -> None:
    """However many hang up: what has not begun to commit must not be written later."""
    application, state = echo_server.application, echo_server.state
    async with AsyncExitStack() as stack:
        old, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(post("/slow", b""))
        await until(lambda: len(application.requests) == CROWD + 1)
        for client in crowd:
            client.hang_up(way)
        await until_next_iteration(lambda: len(state.connections) == 1)
        canceled = application.cancels
        old.send(get("/old"))
        await old.answer()

    assert canceled == CROWD


async def test_whoever_hangs_up_before_its_turn_is_not_served(echo_server: EchoServer) -> None:
    """The work for a client that has left is not begun, however long the line."""
    async with AsyncExitStack() as stack:
        _, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(get("/new"))
            client.writer.transport.abort()
        await until(lambda: len(echo_server.state.connections) == 1 and not echo_server.state.tasks)

    begun, given_up = echo_server.application.requests, echo_server.application.given_up
    assert len(begun) < CROWD / 2
    assert len(begun) + len(given_up) == CROWD + 1


async def test_the_wait_for_a_turn_is_part_of_the_time_that_a_request_takes(
    echo_server: EchoServer,
    client: EchoClient,
    loop_time: LoopTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its deadline begins when it arrives."""
    take, started = echo_server.state.turns.take, asyncio.get_running_loop().time()

    async def take_late() -> None:
        loop_time.advance(20)
        await take()

    monkeypatch.setattr(echo_server.state.turns, "take", take_late)
    client.send(get("/a"))
    await client.answer()

    [request] = echo_server.application.requests
    assert request.arrived_at is not None
    assert request.arrived_at < started + 20


async def test_turns_are_taken_in_order_and_a_few_in_every_second_iteration() -> None:
    """Nobody is overtaken, and one who gives up does not hold up the others."""
    turns, taken, errors = Turns(), list[int](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    for number in range(3 * TURNS_PER_ROUND):
        turns.call(partial(taken.append, number))
    counts = [len(taken)]
    given_up = asyncio.create_task(turns.take())
    last = asyncio.create_task(turns.take())
    while counts[-1] < 3 * TURNS_PER_ROUND:
        await asyncio.sleep(0)
        counts.append(len(taken))
        given_up.cancel()
    await last

    assert taken == list(range(3 * TURNS_PER_ROUND))
    assert counts == [TURNS_PER_ROUND * count for count in (1, 1, 2, 2, 3)]
    assert given_up.cancelled()
    assert errors == []


async def _connect(stack: AsyncExitStack, server: EchoServer) -> list[EchoClient]:
    """Return clients that are connected; the first of them has had an answer already."""
    clients = [await stack.enter_async_context(server.connect()) for _ in range(CROWD + 1)]
    clients[0].send(get("/first"))
    await clients[0].answer()
    await until(lambda: len(server.state.connections) == CROWD + 1)
    return clients
