"""Settings: sessions, the password, two-factor sign-in, and security events."""

from typing import Any, Final

from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.kernel.errors import IdentityCheckNeeded, InvalidField, Refusal
from ousel.people.account_settings import AFTER_ALL_EVENTS, AccountSettingsService
from ousel.people.event_source import event_source
from ousel.people.rules import issuer_name, provisioning_uri
from ousel.people.second_factor import SecondFactorService
from ousel.people.sign_in import SignInService
from ousel.site.qr_codes import qr_code
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit, require_identity_check

EVENTS_SHOWN: Final = 30
SET_UP_APP: Final = "set up an authenticator app"
EVENT_LABELS: Final = {
    "signed_up": "Account created",
    "signed_in": "Signed in",
    "sign_in_failed": "Failed attempt to sign in",
    "signed_out": "Signed out",
    "session_ended": "Session signed out",
    "password_changed": "Password changed",
    "password_reset": "New password set by a link",
    "recovery_link_issued": "Recovery link issued",
    "second_factor_turned_on": "Authenticator app turned on",
    "second_factor_turned_off": "Second factor removed",
    "recovery_code_used": "Recovery code used",
    "passkey_added": "Passkey added",
    "passkey_renamed": "Passkey renamed",
    "passkey_removed": "Passkey removed",
    "passkey_refused": "Passkey refused, because it may have been copied",
    "email_confirmed": "Email confirmed",
    "email_change_requested": "New email requested",
    "email_changed": "Email changed",
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
        self,
        pages: PageRenderer,
        settings: AccountSettingsService,
        sign_in: SignInService,
        second_factors: SecondFactorService,
        *,
        accepts_mail: bool,
    ) -> None:
        """Read and change settings with these services."""
        self._pages = pages
        self._settings = settings
        self._sign_in = sign_in
        self._second_factors = second_factors
        self._accepts_mail = accepts_mail

    def routes(self) -> list[PageRoute]:
        """Return the routes of settings."""
        return [
            PageRoute(method="GET", path="/settings", answer=self.show),
            PageRoute(method="POST", path="/settings/password", answer=self.change_password),
            PageRoute(method="POST", path="/settings/notices", answer=self.set_notices),
            PageRoute(method="POST", path="/settings/sessions/end", answer=self.end_session),
            PageRoute(method="GET", path="/settings/two-factor", answer=self.show_factor),
            PageRoute(method="POST", path="/settings/two-factor", answer=self.confirm_factor),
            PageRoute(method="POST", path="/settings/two-factor/off", answer=self.remove_factor),
            PageRoute(method="GET", path="/settings/history", answer=self.show_history),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show the settings."""
        return await self._settings_page(visit)

    async def change_password(self, visit: Visit) -> Answer:
        """Change the password; all other sessions end."""
        try:
            await self._sign_in.change_password(
                visit.signed_in.account_id,
                visit.form.get("current_password", ""),
                visit.form.get("new_password", ""),
                event_source(visit),
            )
        except InvalidField as refusal:
            return await self._settings_page(visit, refusal)
        return see_other("/settings?done=password")

    async def set_notices(self, visit: Visit) -> Answer:
        """Turn the notices about received money on or off."""
        await self._settings.set_money_notices(
            visit.signed_in.account_id, are_wanted=visit.form.get("money") == "on"
        )
        return see_other("/settings?done=notices")

    async def end_session(self, visit: Visit) -> Answer:
        """End one of the person's sessions."""
        await self._settings.end_session(
            visit.signed_in.account_id, visit.form.get("session", ""), event_source(visit)
        )
        return see_other("/settings?done=session")

    async def show_factor(self, visit: Visit) -> Answer:
        """Show how to set up an authenticator app, or the form that turns it off."""
        return await self._factor_page(visit)

    async def confirm_factor(self, visit: Visit) -> Answer:
        """Turn an authenticator app on, and show the recovery codes once."""
        require_identity_check(visit, SET_UP_APP)
        try:
            codes = await self._second_factors.confirm(
                visit.signed_in.account_id, visit.form.get("code", ""), event_source(visit)
            )
        except InvalidField as refusal:
            return await self._factor_page(visit, refusal)
        return self._pages.render(
            "portal/recovery_codes.html", visit, codes=codes, news="Two-factor sign-in is on."
        )

    async def remove_factor(self, visit: Visit) -> Answer:
        """Turn the authenticator app off."""
        try:
            await self._second_factors.remove(
                visit.signed_in.account_id, visit.form.get("code", ""), event_source(visit)
            )
        except InvalidField as refusal:
            return await self._factor_page(visit, refusal)
        return see_other("/settings?done=two-factor-off")

    async def show_history(self, visit: Visit) -> Answer:
        """Show what happened to the account."""
        before = visit.query.get("before") or AFTER_ALL_EVENTS
        if not before.isascii() or not before.isprintable():
            raise NotFound("There is no such page.")
        events = await self._settings.events_before(
            visit.signed_in.account_id, before, EVENTS_SHOWN + 1
        )
        return self._pages.render(
            "portal/history.html",
            visit,
            events=events[:EVENTS_SHOWN],
            has_more=len(events) > EVENTS_SHOWN,
            event_labels=EVENT_LABELS,
        )

    async def _settings_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        return self._pages.render(
            "portal/settings.html",
            visit,
            refusal=refusal,
            view=await self._settings.read(visit.signed_in.account_id),
            accepts_mail=self._accepts_mail,
            event_labels=EVENT_LABELS,
        )

    async def _factor_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        person = visit.signed_in
        confirmed = await self._second_factors.has_authenticator_app(person.account_id)
        context: dict[str, Any] = {"confirmed": confirmed}
        if not confirmed:
            # Whoever sees the secret can compute its codes.
            require_identity_check(visit, SET_UP_APP)
            secret = await self._second_factors.propose(person.account_id, person.session_hash)
            if secret is not None:
                issuer = issuer_name(self._pages.portal_url)
                uri = provisioning_uri(secret, person.username, issuer)
                context |= {"secret_value": secret, "qr_code": qr_code(uri), "issuer": issuer}
            elif await self._second_factors.has_authenticator_app(person.account_id):
                context["confirmed"] = True  # turned on meanwhile
            else:
                raise IdentityCheckNeeded("Your session has ended.", purpose=SET_UP_APP)
        return self._pages.render("portal/two_factor.html", visit, refusal=refusal, **context)
