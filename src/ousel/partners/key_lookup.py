"""Who holds a key: look-ups for all requests that arrive together, and the keys' last use."""

from typing import Final

import msgspec

from ousel.api.callers import Partner, User
from ousel.api.refusals import Unauthorized
from ousel.database.last_uses import LastUseRecorder
from ousel.database.port import Database, Transaction
from ousel.database.sharing import SharedReads
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, is_secret, matches_hash
from ousel.partners import store
from ousel.partners.rules import Key

SECRETS_REMEMBERED_MAX: Final = 10_000


class _KeyOwner(msgspec.Struct, frozen=True, gc=False):
    """A key, and the partner who holds it."""

    key: Key
    partner: Partner


class PartnerKeyLookup:
    """Knows the partner behind each key, as the database has it at that moment."""

    def __init__(self, database: Database, clock: Clock, *, kind: str) -> None:
        """Name this kind, live, or test in a sandbox, to whoever calls with a key of the other."""
        self._database = database
        self._clock = clock
        self._prefix = f"sk_{kind}_"
        self._other_prefix = "sk_live_" if kind == "test" else "sk_test_"
        self._keys = SharedReads(database, _keys_by_handle)
        self._remembered: dict[str, _KeyOwner] = {}  # by the secret, which need not be hashed again
        self._uses = LastUseRecorder(database, store.record_uses)

    async def partner(self, secret: str) -> Partner:
        """Return the partner whose key this is, or raise Unauthorized."""
        seen = self._remembered.get(secret)
        if seen is None:
            self._check_form(secret)
        for held in await self._keys.get(handle_of(secret) if seen is None else seen.key.handle):
            if held is seen or held == seen or matches_hash(held.key.hash, secret):
                self._remember(secret, held)
                break
        else:
            self._remembered.pop(secret, None)
        partner = self.remembered_partner(secret)
        if partner is None:
            raise self._refusal(secret)
        return partner

    def remembered_partner(self, secret: str) -> Partner | None:
        """Return whose key this was when it was last looked up; it may have ended since."""
        seen = self._remembered.get(secret)
        now = self._clock()
        if seen is None or not seen.key.is_valid_at(now):
            return None
        self._uses.unwritten[seen.key.account_id, seen.key.handle] = now
        return seen.partner

    async def is_origin_of_app(self, caller: Partner | User, origin: str) -> bool:
        """Say whether the origin is registered on the caller's app."""

        async def allowed(transaction: Transaction) -> bool:
            return await store.has_origin(
                transaction, caller.app_account_id, caller.client_id, origin
            )

        return await self._database.read(allowed)

    async def is_origin_of_any_app(self, origin: str) -> bool:
        """Say whether any app has registered the origin."""

        async def known(transaction: Transaction) -> bool:
            return await store.has_any_origin(transaction, origin)

        return await self._database.read(known)

    async def record_uses(self) -> None:
        """Write down when keys were last used, all in one go."""
        await self._uses.record()

    def _remember(self, secret: str, held: _KeyOwner) -> None:
        if len(self._remembered) >= SECRETS_REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[secret] = held

    def _check_form(self, secret: str) -> None:
        """Refuse what cannot be a key; one of the other kind may be from before a server ran."""
        if not is_secret(secret, self._prefix) and not is_secret(secret, self._other_prefix):
            raise self._refusal(secret)

    def _refusal(self, secret: str) -> Unauthorized:
        """Return what is told of a key that is not there, or has ended: by its beginning alone."""
        if not secret.startswith(self._other_prefix):
            return Unauthorized()
        kind = "sandbox" if self._prefix == "sk_test_" else "live server"
        return Unauthorized(f"This is a {kind}: it takes keys that begin with {self._prefix}.")


async def _keys_by_handle(
    transaction: Transaction, handles: list[str]
) -> dict[str, list[_KeyOwner]]:
    found: dict[str, list[_KeyOwner]] = {handle: [] for handle in handles}
    for key, app_name in await store.keys_by_handle(transaction, handles):
        partner = Partner(key.account_id, key.app_id, app_name, key.handle)
        found[key.handle].append(_KeyOwner(key, partner))
    return found
