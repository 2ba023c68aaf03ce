"""The page that asks people to prove again who they are, before it continues what they began."""

from typing import Final

import msgspec

from ousel.http.messages import Answer
from ousel.kernel.errors import IdentityCheckNeeded
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.event_source import event_source
from ousel.people.identity_check import IdentityCheckService, Way
from ousel.portal.passkey_options import options_answer
from ousel.portal.sign_in import HOME
from ousel.site.redirects import local_path, see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit, require_identity_check

PATH: Final = "/confirm-identity"
OPTIONS_PATH: Final = f"{PATH}/options"
FIELD_PREFIX: Final = "identity_"  # of the fields that this page adds to a form
PURPOSE_FIELD: Final = "identity_purpose"
FIELDS: Final[dict[Way, str]] = {
    "password": "identity_password",
    "code": "identity_code",
    "passkey": "identity_passkey",
}
WRONG: Final[dict[Way, str]] = {
    "password": "This is not your password.",
    "code": "This code is not right. Each code works once.",
    "passkey": "The passkey was not accepted. Try again.",
}


class IdentityCheckPages:
    """Asks for a password, a code or a passkey in place of the page that needs it.

    The page repeats the fields of the form that was sent. When the person replies, the whole form
    is sent again. This also works without scripts, and nothing of the form gets into an address.
    """

    def __init__(self, pages: PageRenderer, identity_checks: IdentityCheckService) -> None:
        """Use this service to check what people give."""
        self._pages = pages
        self._identity_checks = identity_checks

    def routes(self) -> list[PageRoute]:
        """Return the routes of the check itself: one continues, one gives options for passkeys."""
        return [
            PageRoute(method="POST", path=PATH, answer=self.continue_to_page),
            PageRoute(method="POST", path=OPTIONS_PATH, answer=self.passkey_options),
        ]

    async def continue_to_page(self, visit: Visit) -> Answer:
        """Lead to the page that needed the check."""
        require_identity_check(visit, visit.form.get(PURPOSE_FIELD, ""))
        return see_other(local_path(visit.form.get("next", ""), HOME))

    async def passkey_options(self, visit: Visit) -> Answer:
        """Return what the browser is to ask of a passkey."""
        return await options_answer(
            self._identity_checks.passkey_options(visit.signed_in.account_id, event_source(visit))
        )

    async def check(self, visit: Visit) -> Visit:
        """Check the password, code or passkey in the form, if there is one and it is needed.

        A form that is sent twice contains a code that was used up by the first time.
        """
        if visit.person is None or visit.person.is_recently_checked:
            return visit
        for way, field in FIELDS.items():
            if field not in visit.form:
                continue
            try:
                is_right = await self._identity_checks.check(
                    way, visit.person.account_id, visit.form[field], event_source(visit)
                )
            except PasskeyNotAccepted as refusal:
                raise IdentityCheckNeeded(refusal.detail, param=field) from None
            if not is_right:
                raise IdentityCheckNeeded(WRONG[way], param=field)
            person = msgspec.structs.replace(visit.person, is_recently_checked=True)
            return msgspec.structs.replace(visit, person=person)
        return visit

    async def ask(self, visit: Visit, refusal: IdentityCheckNeeded) -> Answer:
        """Return the page that asks for a password, a code or a passkey, with the form's fields."""
        action, fields = (visit.url, visit.form) if visit.form else (PATH, {"next": visit.url})
        answer = self._pages.render(
            "portal/identity_check.html",
            visit,
            refusal=refusal,
            action=action,
            # After a wrong answer, the refusal has no purpose, because the page that asked for the
            # check has not run. So the purpose comes from the form.
            purpose=refusal.purpose or visit.form.get(PURPOSE_FIELD, ""),
            fields={
                name: value
                for name, value in fields.items()
                if name != "form_token" and not name.startswith(FIELD_PREFIX)
            },
            options=OPTIONS_PATH,
            site=self._identity_checks.site,
            ways=await self._identity_checks.ways(visit.signed_in.account_id),
        )
        return msgspec.structs.replace(answer, code=refusal.code)
