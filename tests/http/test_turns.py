"""A crowd of clients that connect or hang up at the same moment does not delay the others."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from ousel.http.turns import TURNS_PER_ITERATION, Turns
from tests.http.echo_server import EchoClient, EchoServer, get
from tests.support.waiting import until

CROWD = 20 * TURNS_PER_ITERATION


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
    assert paths.index("/old") <= 3 * TURNS_PER_ITERATION


async def test_a_crowd_that_hangs_up_is_canceled_in_turns(echo_server: EchoServer) -> None:
    """Another client's request is begun before the last of them is canceled."""
    application, state = echo_server.application, echo_server.state
    async with AsyncExitStack() as stack:
        old, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(get("/slow"))
        await until(lambda: len(application.requests) == CROWD + 1)
        for client in crowd:
            client.writer.transport.abort()
        old.send(get("/old"))
        await until(lambda: application.requests[-1].path == "/old")
        left = len(state.tasks)
        await until(lambda: not state.tasks and len(state.connections) == 1)

    assert left > CROWD / 2


async def test_whoever_hangs_up_before_its_turn_is_not_served(echo_server: EchoServer) -> None:
    """The work for a client that has left is not begun, however long the line."""
    async with AsyncExitStack() as stack:
        _, *crowd = await _connect(stack, echo_server)
        for client in crowd:
            client.send(get("/new"))
            client.writer.transport.abort()
        await until(lambda: len(echo_server.state.connections) == 1 and not echo_server.state.tasks)

    assert len(echo_server.application.requests) < CROWD / 2


async def test_turns_are_taken_in_order_and_a_few_in_each_iteration() -> None:
    """Nobody is overtaken, and one who gives up does not hold up the others."""
    turns, taken = Turns(), list[int]()
    for number in range(3 * TURNS_PER_ITERATION):
        turns.call(partial(taken.append, number))
    counts = [len(taken)]
    given_up = asyncio.create_task(turns.take())
    last = asyncio.create_task(turns.take())
    for _ in range(3):
        await asyncio.sleep(0)
        counts.append(len(taken))
        given_up.cancel()
    await last

    assert taken == list(range(3 * TURNS_PER_ITERATION))
    assert counts[:3] == [TURNS_PER_ITERATION * count for count in (1, 2, 3)]
    assert given_up.cancelled()


async def _connect(stack: AsyncExitStack, server: EchoServer) -> list[EchoClient]:
    """Return clients that are connected; the first of them has had an answer already."""
    clients = [await stack.enter_async_context(server.connect()) for _ in range(CROWD + 1)]
    clients[0].send(get("/first"))
    await clients[0].answer()
    await until(lambda: len(server.state.connections) == CROWD + 1)
    return clients
