"""Keys of an app: issue, rotate, revoke."""

from collections.abc import Awaitable, Callable
from typing import Final

from ousel.database.port import Transaction
from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.settings import Settings
from ousel.partners import service
from ousel.partners.rules import App, Key
from ousel.partners.service import IssuedKey
from ousel.people import store as people
from ousel.portal.app_editor import OVERLAPS, AppEditor, check_room
from ousel.site.redirects import see_other
from ousel.site.visits import PageRoute, Visit

KEYS_MAX: Final = 50  # that work at the same time, of one app


class SecondFactorNeeded(Refusal):
    """A live key is issued or rotated only by someone who signs in with a second factor."""

    status = 403
    code = "second_factor_needed"
    title = "Turn on two-factor sign-in first"
    cure = "Turn it on under Settings, then issue the key."


class KeyPages:
    """Serves the keys of a partner's apps."""

    def __init__(self, editor: AppEditor, settings: Settings) -> None:
        """Issue keys of the kind that these settings want."""
        self._editor = editor
        self._settings = settings

    def routes(self) -> list[PageRoute]:
        """Return the routes of keys."""
        base = "/apps/{client_id}/keys"
        return [
            PageRoute(method="POST", path=base, handle=self.issue),
            PageRoute(method="POST", path=f"{base}/{{handle}}/rotate", handle=self.rotate),
            PageRoute(method="GET", path=f"{base}/{{handle}}/revoke", handle=self.ask_to_revoke),
            PageRoute(method="POST", path=f"{base}/{{handle}}/revoke", handle=self.revoke),
        ]

    async def issue(self, visit: Visit) -> Answer:
        """Issue a key, and show it this once."""

        async def work(transaction: Transaction) -> IssuedKey:
            app = await self._editor.own_app(transaction, visit)
            await self._check_second_factor(transaction, visit)
            issued = await self._new_key(transaction, app, visit.form.get("key_name", ""))
            await self._editor.record(transaction, visit, "key_issued", issued.key.label)
            return issued

        return await self._issued(visit, work)

    async def rotate(self, visit: Visit) -> Answer:
        """Rotate a key, and show the new one this once."""
        overlap = visit.form.get("overlap", "")

        async def work(transaction: Transaction) -> IssuedKey:
            app = await self._editor.own_app(transaction, visit)
            await self._check_second_factor(transaction, visit)
            key = await service.own_key(transaction, app, visit.path["handle"])
            if overlap not in OVERLAPS:
                raise InvalidField("Choose how long the old key goes on.", param="overlap")
            if key.ends_at is not None:
                raise InvalidField("This key is rotated or revoked already.", param="handle")
            if int(overlap) > 0:
                await self._check_room(transaction, app, param="handle")
            issued = await service.rotate_key(
                transaction, key, int(overlap), self._settings.secret_kind, self._editor.clock
            )
            await self._editor.record(
                transaction, visit, "key_rotated", f"{key.label} → {issued.key.label}"
            )
            return issued

        return await self._issued(visit, work)

    async def ask_to_revoke(self, visit: Visit) -> Answer:
        """Show which key would end and what follows; a key that has ended is not asked about."""

        async def read(transaction: Transaction) -> tuple[App, Key]:
            app = await self._editor.own_app(transaction, visit)
            return app, await service.own_key(transaction, app, visit.path["handle"])

        app, key = await self._editor.database.read(read)
        if not key.is_valid_at(self._editor.clock()):
            return see_other(f"/apps/{app.id}")
        return self._editor.pages.render("portal/key_revoke.html", visit, app=app, key=key)

    async def revoke(self, visit: Visit) -> Answer:
        """Revoke a key: calls with it are refused from this moment on."""

        async def change(transaction: Transaction, app: App) -> None:
            key = await service.own_key(transaction, app, visit.path["handle"])
            if key.is_valid_at(self._editor.clock()):
                await service.revoke_key(transaction, key, self._editor.clock)
                await self._editor.record(transaction, visit, "key_revoked", key.label)

        return await self._editor.change(visit, change)

    async def _issued(
        self, visit: Visit, work: Callable[[Transaction], Awaitable[IssuedKey]]
    ) -> Answer:
        try:
            issued = await self._editor.database.write(work)
        except (InvalidField, SecondFactorNeeded) as refusal:
            return await self._editor.page(visit, refusal)
        return await self._editor.page(visit, issued=issued)

    async def _new_key(self, transaction: Transaction, app: App, name: str) -> IssuedKey:
        await self._check_room(transaction, app, param="key_name")
        try:
            return await service.issue_key(
                transaction, app, name, self._settings.secret_kind, self._editor.clock
            )
        except InvalidField as refusal:
            raise InvalidField(refusal.detail, param="key_name") from refusal

    async def _check_room(self, transaction: Transaction, app: App, *, param: str) -> None:
        """Refuse a key beside those that work, of which there are as many as may be."""
        now = self._editor.clock()
        working = sum(key.is_valid_at(now) for key in await service.keys_of(transaction, app))
        check_room(working, KEYS_MAX, "keys that work", param=param)

    async def _check_second_factor(self, transaction: Transaction, visit: Visit) -> None:
        if self._settings.sandbox:
            return
        factor = await people.second_factor_of(transaction, visit.signed_in.account_id)
        if factor is None or factor.confirmed_at is None:
            raise SecondFactorNeeded(
                "A live key moves real money, so it takes two-factor sign-in to issue one."
            )
