"""What owners do with the keys of their apps: issue, rotate, revoke."""

from typing import Final

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import derive_secret, matches_hash, new_handle, repeatable_secret
from ousel.partners import rules, service
from ousel.partners.rules import App, Key, RepeatableRequest
from ousel.partners.service import IssuedKey, own_app, own_key
from ousel.people.audit import EventSource, record_event
from ousel.people.notices import EventNotices
from ousel.people.second_factor import has_second_factor

KEYS_MAX: Final = 50  # valid at the same time, of one app
DOCS_KEY_NAME: Final = "API reference"
DOCS_KEY_SECONDS: Final = 24 * 3600


class SecondFactorNeeded(Refusal):
    """Only someone who signs in with a second factor can issue or rotate a live key."""

    status = 403
    code = "second_factor_needed"
    title = "Turn on two-factor sign-in first"
    cure = "Turn it on under Settings, then issue the key."


class KeyService:
    """Reads and changes the keys of an owner's apps, each change with its audit event."""

    def __init__(
        self, database: Database, clock: Clock, notices: EventNotices, *, mode: str
    ) -> None:
        """Issue keys for this mode: live, or test in a sandbox."""
        self._database = database
        self._clock = clock
        self._notices = notices
        self._mode = mode
        self.issues_live_keys = mode == "live"

    async def get(self, account_id: str, app_id: str, handle: str) -> tuple[App, Key]:
        """Return the account's own app and the app's key with this handle."""

        async def read(transaction: Transaction) -> tuple[App, Key]:
            app = await own_app(transaction, account_id, app_id)
            return app, await own_key(transaction, app, handle)

        return await self._database.read(read)

    async def issue(
        self,
        account_id: str,
        app_id: str,
        name: str,
        request: RepeatableRequest,
        source: EventSource,
    ) -> IssuedKey:
        """Issue a key, or return the one that the same request has issued before."""
        secret = self._secret(request)

        async def work(transaction: Transaction) -> IssuedKey:
            app = await self._app_of_locked_account(transaction, account_id, app_id)
            repeated = await self._find_repeated(transaction, app, secret, param="key_name")
            if repeated is not None:
                return repeated
            await self._check_limit(transaction, app, param="key_name")
            key_name = rules.parse_name(name, param="key_name")
            issued = await service.add_key(transaction, app, key_name, secret, self._clock)
            await self._notices.record(
                transaction, account_id, "key_issued", source, issued.key.label
            )
            return issued

        return await self._database.write(work)

    async def issue_docs_key(
        self, account_id: str, app_id: str, session_secret: str, source: EventSource
    ) -> None:
        """Issue a key that `find_docs_key` can show again to this session, for a day.

        The secret is derived from that of the session, so it need not be stored.
        """
        assert not self.issues_live_keys

        async def work(transaction: Transaction) -> None:
            app = await self._app_of_locked_account(transaction, account_id, app_id)
            await self._check_limit(transaction, app, param="client_id")
            secret = derive_secret(new_handle(f"sk_{self._mode}_"), session_secret)
            ends_at = self._clock() + DOCS_KEY_SECONDS * MICROS_PER_SECOND
            issued = await service.add_key(
                transaction, app, DOCS_KEY_NAME, secret, self._clock, ends_at=ends_at
            )
            await self._notices.record(
                transaction, account_id, "key_issued", source, issued.key.label
            )

        await self._database.write(work)

    async def find_docs_key(
        self, account_id: str, session_secret: str
    ) -> tuple[App, IssuedKey] | None:
        """Return the newest valid key that this session issued for the docs, and its app."""
        assert not self.issues_live_keys

        async def read(transaction: Transaction) -> tuple[App, IssuedKey] | None:
            keys = await service.valid_keys_of_account(transaction, account_id, self._clock())
            for key in reversed(keys):
                secret = derive_secret(key.handle, session_secret)
                if matches_hash(key.hash, secret):
                    return await service.app_by_id(transaction, key.app_id), IssuedKey(key, secret)
            return None

        return await self._database.read(read)

    async def rotate(
        self,
        account_id: str,
        app_id: str,
        handle: str,
        overlap_seconds: int,
        request: RepeatableRequest,
        source: EventSource,
    ) -> IssuedKey:
        """Replace a key with a new one; the old key stays valid for the overlap.

        If the same request has done so before, return the key that it has issued.
        """
        secret = self._secret(request)

        async def work(transaction: Transaction) -> IssuedKey:
            app = await self._app_of_locked_account(transaction, account_id, app_id)
            repeated = await self._find_repeated(transaction, app, secret, param="handle")
            if repeated is not None:
                return repeated
            key = await own_key(transaction, app, handle)
            if overlap_seconds > 0 and key.stored_end is None:
                await self._check_limit(transaction, app, param="handle")
            issued = await service.rotate_key(
                transaction, key, overlap_seconds, secret, self._clock
            )
            detail = f"{key.label} → {issued.key.label}"
            await self._notices.record(transaction, account_id, "key_rotated", source, detail)
            return issued

        return await self._database.write(work)

    async def revoke(self, account_id: str, app_id: str, handle: str, source: EventSource) -> None:
        """Revoke a key at once, unless it is revoked or has expired."""

        async def work(transaction: Transaction) -> None:
            app = await own_app(transaction, account_id, app_id)
            key = await own_key(transaction, app, handle)
            if key.is_valid_at(self._clock()):
                await service.revoke_key(transaction, key, self._clock)
                await record_event(
                    transaction, account_id, "key_revoked", source, self._clock, key.label
                )

        await self._database.write(work)

    def _secret(self, request: RepeatableRequest) -> str:
        return repeatable_secret(f"sk_{self._mode}_", request.parent, request.purpose)

    async def _app_of_locked_account(
        self, transaction: Transaction, account_id: str, app_id: str
    ) -> App:
        """Make other requests for keys wait, check the second factor, and return the app."""
        await accounts.lock_holder(transaction, account_id)
        app = await own_app(transaction, account_id, app_id)
        await self._check_second_factor(transaction, account_id)
        return app

    async def _find_repeated(
        self, transaction: Transaction, app: App, secret: str, *, param: str
    ) -> IssuedKey | None:
        """Return the key that this request has issued before; refuse if it is no longer valid."""
        key = await service.find_key(transaction, app, secret)
        if key is None:
            return None
        if not key.is_valid_at(self._clock()):
            raise InvalidField(
                "This form has been used before, and its key is no longer valid."
                " Open the form again.",
                param=param,
            )
        return IssuedKey(key, secret, is_repeated=True)

    async def _check_limit(self, transaction: Transaction, app: App, *, param: str) -> None:
        valid = await service.count_valid_keys(transaction, app, self._clock())
        rules.check_below_limit(valid, KEYS_MAX, "valid keys", "revoke", param=param)

    async def _check_second_factor(self, transaction: Transaction, account_id: str) -> None:
        if self._mode == "live" and not await has_second_factor(transaction, account_id):
            raise SecondFactorNeeded(
                "A live key moves real money, so issuing one requires two-factor sign-in."
            )
