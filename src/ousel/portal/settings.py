"""Settings: where one is signed in, the password, two-factor sign-in, and what happened."""

from http import HTTPStatus
from typing import Any, Final

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.people import store
from ousel.people.audit import record_event
from ousel.people.rules import provisioning_uri
from ousel.people.service import SignInService
from ousel.portal.sign_in import event_source, field_errors
from ousel.site.qr_codes import qr_code
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

EVENTS_SHOWN: Final = 30
SESSIONS_SHOWN: Final = 20
AFTER_ALL_EVENTS: Final = "ev_w"  # after every id, whose digits end with v
HAPPENINGS: Final = {
    "signed_up": "Account created",
    "signed_in": "Signed in",
    "sign_in_failed": "Failed attempt to sign in",
    "signed_out": "Signed out",
    "session_ended": "A session was ended",
    "password_changed": "Password changed",
    "second_factor_turned_on": "Two-factor sign-in turned on",
    "second_factor_turned_off": "Two-factor sign-in turned off",
    "recovery_code_used": "A recovery code was used",
    "app_created": "App created",
    "app_renamed": "App renamed",
    "app_deleted": "App deleted",
    "key_issued": "Key issued",
    "key_rotated": "Key rotated",
    "key_revoked": "Key revoked",
    "redirect_uri_added": "Redirect URI added",
    "redirect_uri_removed": "Redirect URI removed",
    "origin_added": "Origin added",
    "origin_removed": "Origin removed",
    "app_connected": "App connected",
    "app_disconnected": "App disconnected",
}


class SettingsPages:
    """Serves a person's own settings."""

    def __init__(
        self, pages: PageRenderer, database: Database, sign_in_service: SignInService, clock: Clock
    ) -> None:
        """Change passwords and second factors at this door."""
        self._pages = pages
        self._database = database
        self._sign_in_service = sign_in_service
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the routes of settings."""
        return [
            PageRoute(method="GET", path="/settings", handle=self.show),
            PageRoute(method="POST", path="/settings/password", handle=self.change_password),
            PageRoute(method="POST", path="/settings/sessions/end", handle=self.end_session),
            PageRoute(method="GET", path="/settings/two-factor", handle=self.show_factor),
            PageRoute(method="POST", path="/settings/two-factor", handle=self.confirm_factor),
            PageRoute(method="POST", path="/settings/two-factor/off", handle=self.remove_factor),
            PageRoute(method="GET", path="/settings/history", handle=self.show_history),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show the settings."""
        return await self._settings_page(visit)

    async def change_password(self, visit: Visit) -> Answer:
        """Change the password; all other sessions end."""
        person = visit.signed_in
        try:
            await self._sign_in_service.change_password(
                person.account_id,
                person.session_hash,
                visit.form.get("current_password", ""),
                visit.form.get("new_password", ""),
                event_source(visit),
            )
        except InvalidField as refusal:
            return await self._settings_page(visit, refusal)
        return see_other("/settings?done=password")

    async def end_session(self, visit: Visit) -> Answer:
        """End one of the person's sessions."""
        account_id = visit.signed_in.account_id
        session_hash = visit.form.get("session", "")

        async def work(transaction: Transaction) -> None:
            if await store.end_session(transaction, account_id, session_hash):
                await store.forget_proposal(transaction, account_id)
                await record_event(
                    transaction, account_id, "session_ended", event_source(visit), self._clock
                )

        await self._database.write(work)
        return see_other("/settings?done=session")

    async def show_factor(self, visit: Visit) -> Answer:
        """Show how to turn two-factor sign-in on, or that it is on."""
        return await self._factor_page(visit)

    async def confirm_factor(self, visit: Visit) -> Answer:
        """Turn two-factor sign-in on, and show the recovery codes this once."""
        try:
            codes = await self._sign_in_service.confirm_factor(
                visit.signed_in.account_id, visit.form.get("code", ""), event_source(visit)
            )
        except InvalidField as refusal:
            return await self._factor_page(visit, refusal)
        return self._pages.render("portal/recovery_codes.html", visit, codes=codes)

    async def remove_factor(self, visit: Visit) -> Answer:
        """Turn two-factor sign-in off."""
        try:
            await self._sign_in_service.remove_factor(
                visit.signed_in.account_id, visit.form.get("code", ""), event_source(visit)
            )
        except InvalidField as refusal:
            return await self._factor_page(visit, refusal)
        return see_other("/settings?done=two-factor-off")

    async def show_history(self, visit: Visit) -> Answer:
        """Show what happened to the account."""
        before = visit.query.get("before") or AFTER_ALL_EVENTS
        account_id = visit.signed_in.account_id
        if not before.isascii() or not before.isprintable():
            raise NotFound("There is no such page.")
        events = await self._database.read(
            lambda transaction: store.events_before(
                transaction, account_id, before, EVENTS_SHOWN + 1
            )
        )
        return self._pages.render(
            "portal/history.html",
            visit,
            events=events[:EVENTS_SHOWN],
            has_more=len(events) > EVENTS_SHOWN,
            happenings=HAPPENINGS,
        )

    async def _settings_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        account_id = visit.signed_in.account_id

        async def read(transaction: Transaction) -> dict[str, Any]:
            return {
                "account": await accounts.account_by_id(transaction, account_id),
                "email": await accounts.email_of(transaction, account_id),
                "sessions": await store.sessions_of(
                    transaction, account_id, self._clock(), SESSIONS_SHOWN
                ),
                "factor": await store.second_factor_of(transaction, account_id),
                "codes_left": await store.recovery_codes_left(transaction, account_id),
                "events": await store.events_before(transaction, account_id, AFTER_ALL_EVENTS, 5),
            }

        context = await self._database.read(read)
        status = HTTPStatus.OK if refusal is None else refusal.status
        return self._pages.render(
            "portal/settings.html",
            visit,
            status=status,
            errors=field_errors(refusal),
            happenings=HAPPENINGS,
            **context,
        )

    async def _factor_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        person = visit.signed_in
        factor = await self._database.read(
            lambda transaction: store.second_factor_of(transaction, person.account_id)
        )
        confirmed = factor is not None and factor.confirmed_at is not None
        context: dict[str, Any] = {"confirmed": confirmed, "errors": field_errors(refusal)}
        if not confirmed:
            secret = await self._sign_in_service.propose_factor(person.account_id)
            uri = provisioning_uri(secret, person.username, "Ousel")
            context |= {"secret_value": secret, "qr_code": qr_code(uri)}
        status = HTTPStatus.OK if refusal is None else refusal.status
        return self._pages.render("portal/two_factor.html", visit, status=status, **context)
