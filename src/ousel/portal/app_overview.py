"""What the portal reads of an app from several packages, in one transaction."""

from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.oauth.service import count_users
from ousel.partners import service
from ousel.partners.rules import App, Key

ENDED_KEYS_SHOWN: Final = 10


class AppOverview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an app's page shows."""

    app: App
    keys: list[Key]
    redirect_uris: list[str]
    origins: list[str]
    people_connected: int
    now: int


class AppOverviewService:
    """Reads an owner's app with all that belongs to it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Read from this database."""
        self._database = database
        self._clock = clock

    async def read(self, account_id: str, app_id: str) -> AppOverview:
        """Return the account's own app with its keys, addresses and number of users."""

        async def read(transaction: Transaction) -> AppOverview:
            app = await service.own_app(transaction, account_id, app_id)
            now = self._clock()
            return AppOverview(
                app=app,
                keys=[
                    *await service.valid_keys_of(transaction, app, now),
                    *await service.last_ended_keys_of(transaction, app, now, ENDED_KEYS_SHOWN),
                ],
                redirect_uris=await service.redirect_uris_of(transaction, app),
                origins=await service.origins_of(transaction, app),
                people_connected=await count_users(transaction, app.id, now),
                now=now,
            )

        return await self._database.read(read)

    async def read_deletable(self, account_id: str, app_id: str) -> tuple[App, int]:
        """Return the app and its number of users; raise AppHasKeys while a key is valid."""

        async def read(transaction: Transaction) -> tuple[App, int]:
            app = await service.own_app(transaction, account_id, app_id)
            await service.check_deletable(transaction, app, self._clock)
            return app, await count_users(transaction, app.id, self._clock())

        return await self._database.read(read)
