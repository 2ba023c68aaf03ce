"""What the operator does with any partner's apps and keys, from the command line."""

import msgspec

from ousel.accounts import service as accounts
from ousel.database.deployment import Mode, claim_mode, mode_of
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.ledger.rules import Account
from ousel.mail.outbox import Outbox
from ousel.partners import service
from ousel.partners.rules import App, Key
from ousel.partners.service import FIRST_KEY_NAME, IssuedKey, NewApp
from ousel.people.audit import BY_OPERATOR, EventKind, record_event
from ousel.people.letters import NoticeKind
from ousel.people.notices import EventNotices


class CreatedApp(msgspec.Struct, frozen=True):
    """A new app with its owner and its first key."""

    app: App
    owner: Account
    issued: IssuedKey


class OperatorService:
    """Creates apps and changes keys for the operator, each change with its audit event."""

    def __init__(
        self, database: Database, clock: Clock, outbox: Outbox, *, sandbox: bool = False
    ) -> None:
        """Work on this database, and notify the owners of apps by this outbox.

        With `sandbox`, issuing a key makes the database a sandbox if it has no mode yet.
        """
        self._database = database
        self._clock = clock
        self._notices = EventNotices(outbox, clock)
        self._sandbox = sandbox

    async def create_app(
        self, owner: str, name: str, redirect_uris: list[str], origins: list[str]
    ) -> CreatedApp:
        """Create an app with its first key for the account that has this identifier."""

        async def work(transaction: Transaction) -> CreatedApp:
            account = await accounts.find_account(transaction, owner, param="owner")
            new = NewApp(
                account_id=account.id, name=name, redirect_uris=redirect_uris, origins=origins
            )
            app = await service.create_app(transaction, new, self._clock)
            mode = await self._mode(transaction)
            issued = await service.issue_key(transaction, app, FIRST_KEY_NAME, mode, self._clock)
            await self._record(transaction, account.id, "app_created", app.name)
            await self._notify(transaction, account.id, "key_issued", issued.key.label)
            return CreatedApp(app, account, issued)

        return await self._database.write(work)

    async def issue_key(self, app_id: str, name: str) -> IssuedKey:
        """Issue a key to an app."""

        async def work(transaction: Transaction) -> IssuedKey:
            owner = (await service.app_by_id(transaction, app_id)).account_id
            await accounts.lock_holder(transaction, owner)  # as the portal does
            app = await service.app_by_id(transaction, app_id)
            mode = await self._mode(transaction)
            issued = await service.issue_key(transaction, app, name, mode, self._clock)
            await self._notify(transaction, app.account_id, "key_issued", issued.key.label)
            return issued

        return await self._database.write(work)

    async def rotate_key(self, handle: str, overlap_seconds: int) -> IssuedKey:
        """Replace a key with a new one; the old key stays valid for the overlap."""

        async def work(transaction: Transaction) -> IssuedKey:
            owner = (await service.key_by_handle(transaction, handle)).account_id
            await accounts.lock_holder(transaction, owner)  # as the portal does
            key = await service.key_by_handle(transaction, handle)
            secret = service.new_key_secret(await self._mode(transaction))
            issued = await service.rotate_key(
                transaction, key, overlap_seconds, secret, self._clock
            )
            detail = f"{key.label} → {issued.key.label}"
            await self._notify(transaction, key.account_id, "key_rotated", detail)
            return issued

        return await self._database.write(work)

    async def revoke_key(self, handle: str) -> Key:
        """Revoke a key at once, and return it as it is afterwards."""

        async def work(transaction: Transaction) -> Key:
            key = await service.key_by_handle(transaction, handle)
            await service.revoke_key(transaction, key, self._clock)
            if key.is_valid_at(self._clock()):
                await self._record(transaction, key.account_id, "key_revoked", key.label)
            return await service.key_by_handle(transaction, handle)

        return await self._database.write(work)

    async def list_keys(self, app_id: str) -> list[Key]:
        """Return the keys of an app, oldest first."""

        async def read(transaction: Transaction) -> list[Key]:
            return await service.keys_of(transaction, await service.app_by_id(transaction, app_id))

        return await self._database.read(read)

    async def _mode(self, transaction: Transaction) -> Mode:
        """Return the mode of this database, for which keys are issued."""
        if self._sandbox:
            return await claim_mode(transaction, "test")
        return await mode_of(transaction)

    async def _record(
        self, transaction: Transaction, account_id: str, kind: EventKind, detail: str
    ) -> None:
        await record_event(transaction, account_id, kind, BY_OPERATOR, self._clock, detail)

    async def _notify(
        self, transaction: Transaction, account_id: str, kind: NoticeKind, detail: str
    ) -> None:
        """Record the event, and write a notice about it."""
        await self._notices.record(transaction, account_id, kind, BY_OPERATOR, detail)
