"""Keys: who is let in, for how long, and what a stranger is told."""

import msgspec
import pytest

from ousel.api.refusals import Unauthorized
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.errors import InvalidField
from ousel.kernel.ids import handle_of, new_secret
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import KeyCheck, KeyRejected
from ousel.partners import service, store
from ousel.partners.key_lookup import PartnerKeyLookup
from ousel.partners.rules import OVERLAP_SECONDS_DEFAULT, OVERLAP_SECONDS_MAX, Key
from ousel.partners.service import IssuedKey
from ousel.transfers.posting import transfer_posting
from tests.support.clock import ManualClock
from tests.support.problems import assert_problem
from tests.support.raw_http import exchange, request
from tests.support.world import PartnerClient, World

STRANGERS = (
    *(
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Basic c2tfbGl2ZV86eA==",
        "Token x",
        "bearer",
        "Bearer,",
    ),
    *("Bearer sk_live_", "Bearer sk_live_short", "Bearer nonsense", "Bearer ut_live_x", "Bearer é"),
    *(f"Bearer {'x' * 5000}", f"Bearer {new_secret('sk_live_')}", "Bearer sk_live_\\u0000"),
)


@pytest.mark.slow
async def test_missing_malformed_unknown_and_revoked_keys_answer_alike(
    world: World, subtests: pytest.Subtests
) -> None:
    """A stranger learns nothing: one body but for the request id, with WWW-Authenticate."""
    async with world.partner() as caller:
        await world.revoke(caller)
        revoked = await caller.client.get("/me")
        expected = assert_problem(revoked, 401, "unauthorized")
        attempts: list[list[tuple[str, str]]] = [
            [],
            *([("Authorization", value)] for value in STRANGERS),
            [("Authorization", caller.key)],
            [("Authorization", f"Bearer {caller.key.upper()}")],
            [("Authorization", f"Bearer {caller.key}x")],
            [("Authorization", f"Bearer {caller.key[:-1]}")],
            [("Authorization", f"Bearer {handle_of(caller.key)}")],
            [("X-Api-Key", caller.key)],
        ]
        for headers in attempts:
            for target in ("/v1/me", "/v1/balance", "/v1/transfers", "/v1/accounts/@ada"):
                with subtests.test(headers=str(headers)[:60], target=target):
                    answer = await exchange(world.server.port, request("GET", target, headers))
                    problem = assert_problem(answer, 401, "unauthorized")

                    assert problem | {"request_id": ""} == expected | {"request_id": ""}
                    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_the_whole_key_is_compared(world: World) -> None:
    """A key's public handle authenticates nobody, whatever follows it."""
    async with world.partner() as caller:
        handle = handle_of(caller.key)
        forged = handle + new_secret("sk_live_")[len(handle) :]
        async with world.server.client(forged) as client:
            answer = await client.get("/me")
        own = await caller.client.get("/me")

    assert_problem(answer, 401, "unauthorized")
    assert own.status_code == 200


async def test_a_key_in_two_headers_or_in_the_query_is_refused(world: World) -> None:
    """A key stands in one Authorization header and nowhere else."""
    async with world.partner() as caller:
        header = ("Authorization", f"Bearer {caller.key}")
        twice = await exchange(world.server.port, request("GET", "/v1/me", [header, header]))
        query = await exchange(
            world.server.port, request("GET", f"/v1/me?access_token={caller.key}", [])
        )

    assert_problem(twice, 401, "unauthorized")
    assert_problem(query, 401, "unauthorized")


async def test_the_scheme_is_matched_without_case(world: World) -> None:
    """`bearer` and `BEARER` are Bearer (RFC 9110, section 11.1)."""
    async with world.partner() as caller:
        for scheme in ("bearer", "BEARER", "Bearer"):
            headers = [("Authorization", f"{scheme} {caller.key}")]
            answer = await exchange(world.server.port, request("GET", "/v1/me", headers))
            assert answer.status_code == 200, answer.text


async def test_a_wrong_key_is_refused_before_the_body_is_looked_at(world: World) -> None:
    """Nobody without a key learns whether a body would have been right."""
    headers = {"Authorization": f"Bearer {new_secret('sk_live_')}"}
    async with world.server.client() as client:
        answer = await client.post("/transfers", content=b"\xff", headers=headers)

    assert_problem(answer, 401, "unauthorized")


async def test_a_test_key_is_refused_by_name_on_a_live_server(world: World) -> None:
    """Whoever mixes up sandbox and live is told so."""
    async with world.server.client(new_secret("sk_test_")) as client:
        answer = await client.get("/me")

    problem = assert_problem(answer, 401, "unauthorized")
    assert "live server" in problem["detail"]
    assert "sk_live_" in problem["detail"]
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_live_key_is_refused_by_name_in_a_sandbox(world: World) -> None:
    """The other way round as well."""
    partner_keys = PartnerKeyLookup(world.database, ManualClock(), mode="test")

    with pytest.raises(Unauthorized, match=r"keys of this sandbox begin with sk_test_\."):
        await partner_keys.partner(new_secret("sk_live_"))


async def test_a_stored_key_works_whatever_its_prefix(world: World) -> None:
    """Only unknown keys are refused for their prefix; a revoked key gets the same answer."""
    clock = ManualClock()
    partner_keys = PartnerKeyLookup(world.database, clock, mode="test")
    async with world.partner() as caller:
        assert (await partner_keys.partner(caller.key)).client_id == caller.app.id
        await world.revoke(caller, clock)
        refusals = []
        for key in (caller.key, new_secret("sk_live_"), "sk_live_short"):
            with pytest.raises(Unauthorized, match="keys of this sandbox") as refused:
                await partner_keys.partner(key)
            refusals.append(refused.value.detail)

    assert len(set(refusals)) == 1


async def test_a_rotated_key_stays_valid_for_its_overlap(world: World) -> None:
    """The old key works until the last microsecond of the overlap, the new one from the start."""
    clock = ManualClock()
    partner_keys = PartnerKeyLookup(world.database, clock, mode="live")

    async with world.partner() as caller:
        rotated = await _rotated(world.database, caller, 60, clock)
        assert (await partner_keys.partner(rotated.secret)).client_id == caller.app.id
        assert (await partner_keys.partner(caller.key)).client_id == caller.app.id
        clock.advance(seconds=60, micros=-1)
        assert (await partner_keys.partner(caller.key)).client_id == caller.app.id
        clock.advance(micros=1)
        with pytest.raises(Unauthorized):
            await partner_keys.partner(caller.key)
        clock.advance(seconds=10**9)
        assert (await partner_keys.partner(rotated.secret)).client_id == caller.app.id

    assert rotated.key.name == "key"


async def test_an_overlap_of_zero_ends_the_old_key_at_once(world: World) -> None:
    """The very next request with the old key is refused, on a server that has just served it."""
    async with world.partner() as caller:
        before = await caller.client.get("/me")
        rotated = await _rotated(world.database, caller, 0, system_clock)
        after = await caller.client.get("/me")
        async with world.server.client(rotated.secret) as client:
            renewed = await client.get("/me")

    assert before.status_code == 200
    assert_problem(after, 401, "unauthorized")
    assert renewed.json()["app"]["client_id"] == caller.app.id


async def test_a_rotation_does_not_prolong_a_key(world: World) -> None:
    """Rotating again is refused, and does not move the key's end to later."""
    clock = ManualClock()
    partner_keys = PartnerKeyLookup(world.database, clock, mode="live")

    async with world.partner() as caller:
        await _rotated(world.database, caller, 10, clock)
        with pytest.raises(InvalidField, match="already been rotated or revoked"):
            await _rotated(world.database, caller, OVERLAP_SECONDS_MAX, clock)
        clock.advance(seconds=10)
        with pytest.raises(Unauthorized):
            await partner_keys.partner(caller.key)


@pytest.mark.parametrize("overlap_seconds", [None, 0])
async def test_a_revoked_key_is_refused_whatever_the_clock_says(
    world: World, overlap_seconds: int | None
) -> None:
    """It has ended on a host whose clock is behind, and stays ended if a clock steps back."""
    here, behind = ManualClock(), ManualClock()
    partner_keys = PartnerKeyLookup(world.database, behind, mode="live")
    queue = PostingQueue(world.database, behind, queue_limit=1)
    async with world.partner("5") as caller:
        assert (await partner_keys.partner(caller.key)).client_id == caller.app.id
        behind.advance(seconds=-30)
        if overlap_seconds is None:
            await world.revoke(caller, here)
        else:
            await _rotated(world.database, caller, overlap_seconds, here)
        key_check = KeyCheck(caller.account.id, handle_of(caller.key))
        for seconds in (0, -3600, -100 * 366 * 24 * 3600):
            behind.advance(seconds=seconds)
            with pytest.raises(Unauthorized):
                await partner_keys.partner(caller.key)
            posted = await queue.post(transfer_posting(key_check, "@ousel", 1, None, None, behind))
            assert isinstance(posted.outcome, KeyRejected)


async def test_a_revoked_key_shows_when_it_was_revoked(world: World) -> None:
    """The first revocation counts; a key whose overlap has ended shows that time."""
    clock = ManualClock()
    async with world.partner() as caller:
        revoked_at = clock.now
        await world.revoke(caller, clock)
        clock.advance(seconds=1)
        await world.revoke(caller, clock)
        ended = await _key(world.database, caller)

        assert (ended.ends_at, ended.is_valid_at(0)) == (revoked_at, False)
    async with world.partner() as caller:
        assert (await _key(world.database, caller)).ends_at is None
        await _rotated(world.database, caller, 60, clock)
        ends = await _key(world.database, caller)

        assert ends.ends_at == ends.stored_end == clock.now + 60_000_000


def test_the_overlap_is_24_hours_unless_chosen() -> None:
    """A day is enough to roll a key out, a month is the most."""
    assert OVERLAP_SECONDS_DEFAULT == 24 * 3600
    assert OVERLAP_SECONDS_MAX == 30 * 24 * 3600


async def test_an_app_holds_several_keys_at_once(world: World) -> None:
    """Revoking one of them leaves the others alone."""
    async with world.partner() as caller:
        second = await world.database.write(
            lambda transaction: service.issue_key(
                transaction, caller.app, "second", "live", system_clock
            )
        )
        await world.revoke(caller)
        first_answer = await caller.client.get("/me")
        async with world.server.client(second.secret) as client:
            second_answer = await client.get("/me")

    assert_problem(first_answer, 401, "unauthorized")
    assert second_answer.status_code == 200


async def test_the_last_use_of_a_key_is_recorded(world: World) -> None:
    """To the moment of the last request, and only for the key that was used."""
    clock = ManualClock()
    partner_keys = PartnerKeyLookup(world.database, clock, mode="live")

    async with world.partner() as caller:
        clock.advance(seconds=5)
        await partner_keys.partner(caller.key)
        clock.advance(seconds=5)
        await partner_keys.partner(caller.key)
        unused = await _rotated(world.database, caller, 60, clock)
        await partner_keys.record_uses()
        keys = await world.database.read(
            lambda transaction: service.keys_of(transaction, caller.app)
        )

    uses = {key.handle: key.last_used_at for key in keys}
    assert uses == {handle_of(caller.key): clock.now, unused.key.handle: None}


async def test_an_app_s_own_key_is_found_where_another_account_has_its_handle(world: World) -> None:
    """Whoever looks at an app's keys is never shown, nor ends, another's."""
    async with world.partner() as one, world.partner() as other:
        handle = handle_of(one.key)
        twin = msgspec.structs.replace(await _key(world.database, other), handle=handle)
        await world.database.write(lambda transaction: store.add_key(transaction, twin))
        for caller in (one, other):
            found = await _own_key(world.database, caller, handle)
            assert (found.account_id, found.app_id) == (caller.account.id, caller.app.id)
        with pytest.raises(service.KeyNotFound):
            await _own_key(world.database, one, handle_of(other.key))


async def test_only_a_hash_of_a_key_is_stored(world: World) -> None:
    """Nothing in the database can be used to authenticate."""
    async with world.partner() as caller:
        (key,) = await world.database.read(
            lambda transaction: service.keys_of(transaction, caller.app)
        )

    kept = " ".join(map(str, (key.handle, key.hash, key.name)))
    assert caller.key not in kept
    assert key.handle == caller.key[: len("sk_live_") + 8]
    assert len(caller.key) == len("sk_live_") + 40


async def _key(database: Database, caller: PartnerClient) -> Key:
    handle = handle_of(caller.key)
    return await database.read(lambda transaction: service.key_by_handle(transaction, handle))


async def _own_key(database: Database, caller: PartnerClient, handle: str) -> Key:
    return await database.read(lambda transaction: service.own_key(transaction, caller.app, handle))


async def _rotated(
    database: Database, caller: PartnerClient, overlap_seconds: int, clock: Clock
) -> IssuedKey:
    async def rotate(transaction: Transaction) -> IssuedKey:
        key = await service.key_by_handle(transaction, handle_of(caller.key))
        secret = service.new_key_secret("live")
        return await service.rotate_key(transaction, key, overlap_seconds, secret, clock)

    return await database.write(rotate)
