"""Look-ups of partner keys, shared by requests that arrive together, and each key's last use."""

from typing import Final

import msgspec

from ousel.api.callers import Partner, User
from ousel.api.refusals import Unauthorized
from ousel.database.batching import SharedReads
from ousel.database.last_uses import LastUseRecorder
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, is_secret, matches_hash
from ousel.partners import store
from ousel.partners.rules import Key

SECRETS_CACHED_MAX: Final = 10_000


class _KeyOwner(msgspec.Struct, frozen=True, gc=False):
    """A key, and the partner whom it authenticates."""

    key: Key
    partner: Partner


class PartnerKeyLookup:
    """Finds the partner that a key authenticates, as stored at the time of the call."""

    def __init__(self, database: Database, clock: Clock, *, mode: str) -> None:
        """Look up keys on a server of this mode, live or test.

        Stored keys of the other mode are accepted too; the mode only affects the text of a refusal.
        """
        self._database = database
        self._clock = clock
        self._prefix = f"sk_{mode}_"
        self._other_prefix = "sk_live_" if mode == "test" else "sk_test_"
        self._keys = SharedReads(database, _keys_by_handle)
        self._cached: dict[str, _KeyOwner] = {}  # by secret, which saves hashing it again
        self._uses = LastUseRecorder(database, store.record_uses)

    async def partner(self, secret: str) -> Partner:
        """Return the partner whose key this is, or raise Unauthorized."""
        cached = self._cached.get(secret)
        if cached is None:
            self._check_format(secret)
        handle = handle_of(secret) if cached is None else cached.key.handle
        for owner in await self._keys.get(handle):
            if owner is cached or owner == cached or matches_hash(owner.key.hash, secret):
                self._cache(secret, owner)
                break
        else:
            self._cached.pop(secret, None)
        partner = self.cached_partner(secret)
        if partner is None:
            raise self._refusal(secret)
        return partner

    def cached_partner(self, secret: str) -> Partner | None:
        """Return the partner found at the last look-up; the key may have been revoked since."""
        cached = self._cached.get(secret)
        now = self._clock()
        if cached is None or not cached.key.is_valid_at(now):
            return None
        self._uses.unwritten[cached.key.account_id, cached.key.handle] = now
        return cached.partner

    async def is_origin_of_app(self, caller: Partner | User, origin: str) -> bool:
        """Return whether the origin is registered for the caller's app."""

        async def read(transaction: Transaction) -> bool:
            return await store.has_origin(
                transaction, caller.app_account_id, caller.client_id, origin
            )

        return await self._database.read(read)

    async def is_origin_of_any_app(self, origin: str) -> bool:
        """Return whether any app has registered the origin."""

        async def read(transaction: Transaction) -> bool:
            return await store.has_any_origin(transaction, origin)

        return await self._database.read(read)

    async def record_uses(self) -> None:
        """Write when keys were last used, in one transaction."""
        await self._uses.record()

    def _cache(self, secret: str, owner: _KeyOwner) -> None:
        if len(self._cached) >= SECRETS_CACHED_MAX:
            self._cached.clear()
        self._cached[secret] = owner

    def _check_format(self, secret: str) -> None:
        """Refuse what cannot be a key of either mode; a database may contain keys of both."""
        if not is_secret(secret, self._prefix) and not is_secret(secret, self._other_prefix):
            raise self._refusal(secret)

    def _refusal(self, secret: str) -> Unauthorized:
        """Return the refusal, whose text depends only on the prefix of the key."""
        if not secret.startswith(self._other_prefix):
            return Unauthorized()
        server = "sandbox" if self._prefix == "sk_test_" else "live server"
        return Unauthorized(
            f"This key is not valid. New keys of this {server} begin with {self._prefix}."
        )


async def _keys_by_handle(
    transaction: Transaction, handles: list[str]
) -> dict[str, list[_KeyOwner]]:
    found: dict[str, list[_KeyOwner]] = {handle: [] for handle in handles}
    for key, app_name in await store.keys_by_handle(transaction, handles):
        partner = Partner(key.account_id, key.app_id, app_name, key.handle)
        found[key.handle].append(_KeyOwner(key, partner))
    return found
