"""Settings: pages on which people add, rename and remove passkeys."""

from typing import Final

from ousel.http.messages import Answer, json_answer
from ousel.kernel.errors import IdentityCheckNeeded, InvalidField, Refusal
from ousel.passkeys.rules import Owner
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.account_settings import AccountSettingsService
from ousel.people.event_source import event_source
from ousel.people.passkeys import PasskeyService
from ousel.people.rules import device_name
from ousel.portal.passkey_options import options_answer
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit, require_identity_check

PATH: Final = "/settings/passkeys"
CHECK_ENDED: Final = (
    "More than ten minutes have passed. Reload the page, and confirm again that it is you."
)
FIRST_PASSKEY_ADDED: Final = (
    "The passkey has been added. From now on, signing in with your password also needs a passkey"
    " or a recovery code."
)


class PasskeyPages:
    """Serves the pages about a person's passkeys."""

    def __init__(
        self, pages: PageRenderer, passkeys: PasskeyService, settings: AccountSettingsService
    ) -> None:
        """Read and change passkeys with these services."""
        self._pages = pages
        self._passkeys = passkeys
        self._settings = settings

    def routes(self) -> list[PageRoute]:
        """Return the routes of passkeys."""
        one = f"{PATH}/{{id}}"
        return [
            PageRoute(method="GET", path=PATH, answer=self.show),
            PageRoute(method="POST", path=PATH, answer=self.add),
            PageRoute(method="POST", path=f"{PATH}/options", answer=self.options),
            PageRoute(method="GET", path=one, answer=self.show_one),
            PageRoute(method="POST", path=f"{one}/rename", answer=self.rename),
            PageRoute(method="POST", path=f"{one}/remove", answer=self.remove),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show the passkeys, and the form that adds one.

        The check comes first, because a browser that makes a passkey cannot be interrupted.
        """
        require_identity_check(visit, "manage your passkeys")
        return await self._list_page(visit)

    async def options(self, visit: Visit) -> Answer:
        """Return how the browser is to make a passkey."""
        if not visit.signed_in.is_recently_checked:
            return json_answer({"detail": CHECK_ENDED}, IdentityCheckNeeded.status)
        person = visit.signed_in
        owner = Owner(person.account_id, person.username, person.display_name)
        return await options_answer(self._passkeys.creation_options(owner, event_source(visit)))

    async def add(self, visit: Visit) -> Answer:
        """Add a passkey; if it is the only second factor, show new recovery codes once."""
        require_identity_check(visit, "add a passkey")
        try:
            codes = await self._passkeys.add(
                visit.signed_in.account_id,
                visit.form.get("name", ""),
                visit.form.get("credential", ""),
                event_source(visit),
            )
        except (InvalidField, PasskeyNotAccepted) as refusal:
            return await self._list_page(visit, refusal)
        if codes is None:  # the session has ended meanwhile
            return see_other(f"/login?next={PATH}")
        if codes:
            return self._pages.render(
                "portal/recovery_codes.html", visit, codes=codes, news=FIRST_PASSKEY_ADDED
            )
        return see_other(f"{PATH}?done=added")

    async def show_one(self, visit: Visit) -> Answer:
        """Show a passkey, with the forms that rename and remove it."""
        return await self._page_of_one(visit)

    async def rename(self, visit: Visit) -> Answer:
        """Rename a passkey."""
        try:
            await self._passkeys.rename(
                visit.signed_in.account_id,
                visit.path["id"],
                visit.form.get("name", ""),
                event_source(visit),
            )
        except InvalidField as refusal:
            return await self._page_of_one(visit, refusal)
        return see_other(f"{PATH}?done=renamed")

    async def remove(self, visit: Visit) -> Answer:
        """Remove a passkey."""
        require_identity_check(visit, "remove a passkey")
        await self._passkeys.remove(
            visit.signed_in.account_id, visit.path["id"], event_source(visit)
        )
        return see_other(f"{PATH}?done=removed")

    async def _list_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        return self._pages.render(
            "portal/passkeys.html",
            visit,
            refusal=refusal,
            view=await self._settings.read(visit.signed_in.account_id),
            site=self._passkeys.site,
            suggested_name=device_name(visit.device),
        )

    async def _page_of_one(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        account_id = visit.signed_in.account_id
        passkey = await self._passkeys.find(account_id, visit.path["id"])
        view = await self._settings.read(account_id)
        return self._pages.render(
            "portal/passkey.html",
            visit,
            refusal=refusal,
            passkey=passkey,
            is_last_factor=view.last_factor_is_passkey,
        )
