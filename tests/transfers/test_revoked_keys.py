"""A revoked key moves no money, even on a server that has cached it."""

import asyncio
from collections import Counter

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.database.addresses import open_database
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import handle_of
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, KeyCheck, KeyRejected, Movement, Posting
from ousel.partners import service
from tests.ledger.examples import posting
from tests.support import accounts
from tests.support.accounts import unique_name
from tests.support.problems import assert_problem
from tests.support.world import World


async def test_the_next_transfer_is_refused_and_so_are_replays_and_bad_bodies(world: World) -> None:
    """A revoked key gets the same answer as a key that never existed."""
    ada = await world.person()
    good = f'{{"to": "@{ada.username}", "amount": 1}}'
    async with world.partner("10") as sender:
        first = await sender.send(good, "first")
        await _revoke(world.database, sender.key)
        for body, key in (
            (good, "second"),
            (good, "first"),
            (good, None),
            ('{"to": "@nobody_at_all", "amount": 1}', None),
            ('{"amount": "much"}', None),
            ("{", None),
        ):
            answer = await sender.send(body, key)
            assert_problem(answer, 401, "unauthorized")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert "RateLimit" not in answer.headers

    assert first.status_code == 201
    assert await world.balance(ada) == 1_000_000


async def test_a_revoked_key_does_not_affect_other_transfers_of_its_batch(world: World) -> None:
    """Two keys of one account, all at once: one moves money every time, the other never."""
    ada = await world.person()
    body = f'{{"to": "@{ada.username}", "amount": 1}}'
    async with world.partner("100") as revoked, world.another_app(revoked) as valid:
        assert (await revoked.send(body)).status_code == 201
        assert (await valid.send(body)).status_code == 201
        await _revoke(world.database, revoked.key)
        answers = await asyncio.gather(
            *(caller.send(body) for caller in (revoked, valid) for _ in range(20))
        )

    assert Counter(answer.status_code for answer in answers[:20]) == {401: 20}
    assert Counter(answer.status_code for answer in answers[20:]) == {201: 20}
    assert await world.balance(ada) == 22_000_000


async def test_a_key_that_was_renewed_elsewhere_goes_on(world: World) -> None:
    """A rotated key sends until its overlap is over, and the one that follows it after that."""
    ada = await world.person()
    body = f'{{"to": "@{ada.username}", "amount": 1}}'
    async with world.partner("10") as sender:
        assert (await sender.send(body)).status_code == 201
        renewed = await _rotate(world.database, sender.key)
        assert (await sender.send(body)).status_code == 201
        async with world.server.client(renewed) as client:
            answer = await client.post("/transfers", json={"to": f"@{ada.username}", "amount": 1})

    assert answer.status_code == 201
    assert await world.balance(ada) == 3_000_000


@given(requests=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=12))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_only_valid_keys_move_money(database_url: str, requests: list[tuple[str, int]]) -> None:
    """In one batch with any mix of keys, exactly the postings with a valid key move money.

    The valid key was rotated, and its overlap is not over.
    """

    async def run() -> None:
        async with open_database(database_url) as database:
            account, _, first = await accounts.partner(database, unique_name(), "1")
            keys = {"a": first}
            for name in "bc":
                _, keys[name] = await accounts.app_with_key(database, account)
            ada = await accounts.person(database, unique_name())
            for name in "ac":
                await _revoke(database, keys[name])
            await _rotate(database, keys["b"])
            queue = PostingQueue(database, system_clock, queue_limit=100)
            posted = await asyncio.gather(
                *(
                    queue.post(_asked_with(keys[name], account, ada, amount))
                    for name, amount in requests
                )
            )
            moved = [isinstance(each.outcome, Movement) for each in posted]
            rejected = [isinstance(each.outcome, KeyRejected) for each in posted]

            assert queue.batches_written == (1 if requests else 0)
            assert moved == [name == "b" for name, _ in requests]
            assert rejected == [name != "b" for name, _ in requests]
            assert await accounts.balance(database, ada) == sum(
                amount for name, amount in requests if name == "b"
            )

    asyncio.run(run())


def _asked_with(secret: str, sender: Account, recipient: Account, amount: int) -> Posting:
    key_check = KeyCheck(sender.id, handle_of(secret))
    wanted = posting(sender.id, f"@{recipient.username}", amount)
    return msgspec.structs.replace(wanted, key_check=key_check)


async def _revoke(database: Database, secret: str) -> None:
    async def revoke(transaction: Transaction) -> None:
        key = await service.key_by_handle(transaction, handle_of(secret))
        await service.revoke_key(transaction, key, system_clock)

    await database.write(revoke)


async def _rotate(database: Database, secret: str) -> str:
    """Replace the key, and return the new one; the old one stays valid for an hour."""

    async def rotate(transaction: Transaction) -> str:
        key = await service.key_by_handle(transaction, handle_of(secret))
        renewed = service.new_key_secret("live")
        return (await service.rotate_key(transaction, key, 3600, renewed, system_clock)).secret

    return await database.write(rotate)
