"""Pages on which people sign up, sign in, enter a code or use a passkey, and sign out."""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ousel.accounts.service import IdentifierInUse, NewHolder
from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField, Refusal
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.audit import EventSource
from ousel.people.event_source import event_source
from ousel.people.passkey_sign_in import PasskeySignInService
from ousel.people.sign_in import NewSession, SignInEnded, SignInService, WrongCode, WrongPassword
from ousel.portal.passkey_options import options_answer
from ousel.site.cookies import Cookies
from ousel.site.forms import form_token
from ousel.site.redirects import local_path, see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

HOME: Final = "/activity"
CODE_PAGE: Final = "/login/code"

FinishSignIn = Callable[[str, str, EventSource], Awaitable[NewSession]]


class SignInPages:
    """Serves the pages with which people sign up, in and out."""

    def __init__(
        self,
        pages: PageRenderer,
        sign_in_service: SignInService,
        passkeys: PasskeySignInService,
        cookies: Cookies,
    ) -> None:
        """Sign people in with these services."""
        self._pages = pages
        self._sign_in_service = sign_in_service
        self._passkeys = passkeys
        self._cookies = cookies

    def routes(self) -> list[PageRoute]:
        """Return the routes of signing in."""
        return [
            PageRoute(method="GET", path="/", answer=self.welcome, for_everyone=True),
            PageRoute(method="GET", path="/signup", answer=self.show_sign_up, for_everyone=True),
            PageRoute(
                method="POST",
                path="/signup",
                answer=self.sign_up,
                for_everyone=True,
                opens_session=True,
            ),
            PageRoute(method="GET", path="/login", answer=self.show_sign_in, for_everyone=True),
            PageRoute(
                method="POST",
                path="/login",
                answer=self.sign_in,
                for_everyone=True,
                opens_session=True,
            ),
            PageRoute(method="GET", path=CODE_PAGE, answer=self.show_code, for_everyone=True),
            PageRoute(
                method="POST",
                path=CODE_PAGE,
                answer=self.enter_code,
                for_everyone=True,
                opens_session=True,
            ),
            PageRoute(method="POST", path="/logout", answer=self.sign_out, for_everyone=True),
            *self._passkey_routes(),
        ]

    def _passkey_routes(self) -> list[PageRoute]:
        answers = {
            "/login/passkey": self.use_passkey,
            "/login/passkey/options": self.passkey_options,
            f"{CODE_PAGE}/passkey": self.use_passkey_as_code,
            f"{CODE_PAGE}/passkey/options": self.passkey_options_as_code,
        }
        return [
            PageRoute(
                method="POST", path=path, answer=answer, for_everyone=True, opens_session=True
            )
            for path, answer in answers.items()
        ]

    async def welcome(self, visit: Visit) -> Answer:
        """Show the welcome page; redirect people who are signed in to their activity."""
        if visit.person is not None:
            return see_other(HOME)
        return self._pages.render("portal/welcome.html", visit)

    async def show_sign_up(self, visit: Visit) -> Answer:
        """Show the form that opens an account."""
        return self._sign_up_page(visit)

    async def sign_up(self, visit: Visit) -> Answer:
        """Open an account and sign its holder in."""
        holder = NewHolder(
            username=visit.form.get("username", ""),
            email=visit.form.get("email", ""),
            display_name=visit.form.get("display_name", ""),
        )
        try:
            signed_in = await self._sign_in_service.sign_up(
                holder, visit.form.get("password", ""), event_source(visit)
            )
        except (InvalidField, IdentifierInUse) as refusal:
            return self._sign_up_page(visit, refusal)
        return self._redirect_signed_in(signed_in, visit)

    async def show_sign_in(self, visit: Visit) -> Answer:
        """Show the sign-in form."""
        has_new_password = visit.query.get("done") == "password"  # maybe of another account
        if visit.person is not None and not has_new_password:
            return see_other(next_of(visit))
        return self._sign_in_page(visit)

    async def sign_in(self, visit: Visit) -> Answer:
        """Sign in, and return to the page that asked for it."""
        try:
            signed_in = await self._sign_in_service.sign_in(
                visit.form.get("identifier", ""),
                visit.form.get("password", ""),
                event_source(visit),
            )
        except WrongPassword as refusal:
            return self._sign_in_page(visit, refusal)
        return self._redirect_signed_in(signed_in, visit)

    async def show_code(self, visit: Visit) -> Answer:
        """Ask for a code or a passkey, after the password."""
        if visit.person is not None:
            return see_other(next_of(visit))
        return await self._code_page(visit)

    async def enter_code(self, visit: Visit) -> Answer:
        """Finish signing in with a code."""
        return await self._finish(visit, self._sign_in_service.sign_in_with_code, "code")

    async def passkey_options(self, visit: Visit) -> Answer:
        """Return what the browser is to ask of a passkey."""
        return await options_answer(self._passkeys.options(event_source(visit)))

    async def use_passkey(self, visit: Visit) -> Answer:
        """Sign in with a passkey and nothing else."""
        try:
            signed_in = await self._passkeys.sign_in(
                visit.form.get("credential", ""), event_source(visit)
            )
        except PasskeyNotAccepted as refusal:
            return self._sign_in_page(visit, refusal)
        return self._redirect_signed_in(signed_in, visit)

    async def passkey_options_as_code(self, visit: Visit) -> Answer:
        """Return what the browser is to ask of a passkey after the password."""
        session_secret = self._cookies.session(visit.headers) or ""
        return await options_answer(
            self._passkeys.second_step_options(session_secret, event_source(visit))
        )

    async def use_passkey_as_code(self, visit: Visit) -> Answer:
        """Finish signing in with a passkey instead of a code."""
        return await self._finish(visit, self._passkeys.finish, "credential")

    async def sign_out(self, visit: Visit) -> Answer:
        """End the session; the next sign-in leads to the page that the form names, or to HOME."""
        person = visit.person
        if person is not None:  # else the session had ended already
            await self._sign_in_service.sign_out(
                person.account_id, person.session_hash, event_source(visit)
            )
        return see_other(with_next("/login", next_of(visit)), self._cookies.sign_out())

    async def _finish(self, visit: Visit, finish: FinishSignIn, field: str) -> Answer:
        """Finish signing in with what this field of the form contains.

        If the person is signed in already, the form was sent twice.
        """
        if visit.person is not None:
            return see_other(next_of(visit))
        session_secret = self._cookies.session(visit.headers) or ""
        try:
            signed_in = await finish(session_secret, visit.form.get(field, ""), event_source(visit))
        except (WrongCode, PasskeyNotAccepted, SignInEnded) as refusal:
            return await self._code_page(visit, refusal)
        return self._redirect_signed_in(signed_in, visit)

    def _redirect_signed_in(self, signed_in: NewSession, visit: Visit) -> Answer:
        """Redirect, set the session cookie, and renew the cookie by which the browser is known."""
        cookies = (
            self._cookies.sign_in(signed_in.secret, signed_in.seconds),
            self._cookies.remember_visitor(visit.visitor),
        )
        target = next_of(visit)
        if signed_in.stage == "awaits_code":
            return see_other(with_next(CODE_PAGE, target), *cookies)
        return see_other(target, *cookies)

    def _sign_up_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        return self._form("portal/signup.html", visit, refusal)

    def _sign_in_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        return self._form("portal/login.html", visit, refusal)

    async def _code_page(self, visit: Visit, refusal: Refusal | None = None) -> Answer:
        session_secret = self._cookies.session(visit.headers)
        step = await self._passkeys.second_step(session_secret or "")
        if step is not None:
            return self._form("portal/code.html", visit, refusal, step=step)
        if refusal is not None and session_secret is not None:
            # If the form was sent twice, the browser may have a newer session by now.
            return see_other(with_next(CODE_PAGE, next_of(visit)))
        return self._sign_in_page(visit, SignInEnded() if refusal or session_secret else None)

    def _form(self, template: str, visit: Visit, refusal: Refusal | None, **more: Any) -> Answer:
        if visit.person is None:
            # The browser may have the cookie of a session that has ended or awaits a code. With the
            # visitor's token, the form can be sent a second time when the new session is open.
            visit = msgspec.structs.replace(visit, form_token=form_token(visit.visitor))
        site = self._passkeys.site
        return self._pages.render(
            template, visit, refusal=refusal, next=next_of(visit), site=site, **more
        )


def next_of(visit: Visit) -> str:
    """Return the page to open after signing in: one of this site, or HOME."""
    target = visit.form.get("next") or visit.query.get("next") or HOME
    return local_path(target, HOME)


def with_next(address: str, target: str) -> str:
    """Return the address with this target as its `next`; HOME needs none."""
    if target == HOME:
        return address
    return f"{address}{'&' if '?' in address else '?'}next={quote(target, safe='')}"
