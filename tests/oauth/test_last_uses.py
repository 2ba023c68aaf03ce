"""The last use of a key or token survives a database that is unavailable."""

import pytest

from ousel.database.last_uses import LastUseRecorder
from ousel.database.port import Database, Transaction
from ousel.kernel.errors import DatabaseUnavailable
from ousel.oauth import service
from ousel.oauth.token_lookup import UserTokenLookup
from ousel.partners.key_lookup import PartnerKeyLookup
from ousel.partners.store import keys_of
from tests.oauth.consents import Consent
from tests.support.clock import ManualClock
from tests.support.in_process import in_process_client


async def refused(_: object) -> None:
    """Write nothing."""
    raise DatabaseUnavailable("The database is away.")


async def test_a_use_that_could_not_be_written_is_written_later(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of keys and tokens alike: the next time that uses are written, it is among them."""
    consent = await Consent.of_new_people(database)
    clock = ManualClock()
    async with in_process_client(database_url, clock) as client:
        token = await consent.token(client, clock)
    partner_keys = PartnerKeyLookup(database, clock, mode="live")
    tokens = UserTokenLookup(database, clock, mode="live")

    async def last_uses(transaction: Transaction) -> list[int | None]:
        [key] = await keys_of(transaction, consent.app)
        [connection] = await service.list_connections(transaction, consent.user.id, clock())
        return [key.last_used_at, connection.last_used_at]

    clock.advance(seconds=5)
    await partner_keys.partner(consent.key)
    await tokens.user(token)
    with monkeypatch.context() as patch:
        patch.setattr(database, "write", refused)
        for each in (partner_keys, tokens):
            with pytest.raises(DatabaseUnavailable):
                await each.record_uses()
    for each in (partner_keys, tokens):
        await each.record_uses()

    assert await database.read(last_uses) == [clock.now, clock.now]


async def test_a_newer_use_replaces_one_that_waits(database: Database) -> None:
    """A use during a failed write is newer, and is the one that is written later."""
    written: list[dict[tuple[str, str], int]] = []

    async def write(_: Transaction, uses: dict[tuple[str, str], int]) -> None:
        written.append(uses)
        if len(written) == 1:
            last.unwritten["acct_1", "a"] = 3
            raise DatabaseUnavailable("The database is away.")

    last = LastUseRecorder(database, write)
    last.unwritten |= {("acct_1", "a"): 1, ("acct_1", "b"): 2}
    with pytest.raises(DatabaseUnavailable):
        await last.record()
    await last.record()
    await last.record()

    assert written[1:] == [{("acct_1", "a"): 3, ("acct_1", "b"): 2}]
