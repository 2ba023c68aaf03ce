"""Every state of the portal that takes more than an address to reach, including errors."""

from collections.abc import Callable
from urllib.parse import quote, urlencode

from playwright.sync_api import FilePayload, Page, expect

from tests.sealed_log.examples import KEY, movement, receipt_of
from tests.support.browser import create_app, sign_in, sign_up, turn_on_factor
from tests.support.visitor import PASSWORD

LONG_NAME = "W" * 80
LONG_ADDRESS = "https://" + "w" * 60 + ".example/" + "w" * 300

State = Callable[[Page], None]


def _wrong_sign_in(page: Page) -> None:
    sign_in(page, "ada", "wrong horse battery")
    expect(page.get_by_role("alert")).to_be_visible()


def _limited(page: Page) -> None:
    for _ in range(11):
        sign_in(page, "nobody_at_all", "wrong horse battery")
    expect(page.get_by_role("heading", name="Too many attempts")).to_be_visible()


def _wrong_sign_up(page: Page) -> None:
    page.goto("/signup")
    for label in ("Username", "Email", "Display name", "Password"):
        page.get_by_label(label).fill("a@b" if label == "Email" else "a")
    page.get_by_role("button", name="Create account").click()
    expect(page.locator(".error")).to_have_count(3)


def _form_out_of_date(page: Page) -> None:
    page.goto("/login")
    page.context.clear_cookies()
    page.get_by_label("Email or username").fill("ada")
    page.get_by_label("Password").fill("whatever")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="The form was not accepted")).to_be_visible()


def _wrong_method(page: Page) -> None:
    page.goto("/settings/password")
    expect(page.get_by_role("heading", name="The method is not allowed here")).to_be_visible()


def _wrong_code(page: Page) -> None:
    page.goto("/login/code")
    expect(page.get_by_label("Code")).to_be_visible()


def _ended_link(page: Page) -> None:
    page.goto("/reset?token=rl_0")
    expect(page.get_by_role("alert")).to_be_visible()


def _reset_link(page: Page) -> None:
    page.goto("/forgot")
    page.get_by_label("Email or username").fill("ada")
    page.get_by_role("button", name="Send a link").click()
    page.goto("/sandbox/mail?to=ada@example.com")
    page.get_by_role("link", name="/reset?token=").first.click()
    expect(page.get_by_label("New password")).to_be_visible()


def _wrong_new_password(page: Page) -> None:
    page.get_by_label("New password").fill("short")
    page.get_by_role("button", name="Set password").click()
    expect(page.locator("#new_password-error")).to_be_visible()


def _check_receipt(page: Page, content: bytes) -> None:
    page.goto("/verify")
    page.get_by_label("Verifier key").fill(str(KEY.verifier))
    file: FilePayload = {"name": "receipt.json", "mimeType": "application/json", "buffer": content}
    page.get_by_label("Receipt file").set_input_files(file)
    page.get_by_role("button", name="Check receipt").click()


def _receipt_genuine(page: Page) -> None:
    _check_receipt(page, receipt_of(movement(note=LONG_NAME)))
    expect(page.get_by_text("The receipt is genuine.")).to_be_visible()
    expect(page.get_by_role("heading", name="Not proven")).to_be_visible()


def _receipt_changed(page: Page) -> None:
    _check_receipt(page, receipt_of(movement()).replace(b"Lunch", b"Lunck"))
    expect(page.get_by_text("This receipt proves nothing.")).to_be_visible()


def _no_receipt(page: Page) -> None:
    page.goto("/verify")
    page.get_by_role("button", name="Check receipt").click()
    expect(page.locator(".error")).to_have_count(1)


SIGNED_OUT: dict[str, State] = {
    "reset-ended": _ended_link,
    "reset": _reset_link,
    "reset-wrong": _wrong_new_password,
    "receipt-genuine": _receipt_genuine,
    "receipt-changed": _receipt_changed,
    "receipt-missing": _no_receipt,
    "login-wrong": _wrong_sign_in,
    "login-limited": _limited,
    "signup-wrong": _wrong_sign_up,
    "form-out-of-date": _form_out_of_date,
    "wrong-method": _wrong_method,
    "code": _wrong_code,
}


def _nothing_yet(page: Page) -> None:
    page.goto("/activity")
    expect(page.get_by_text("No movements yet")).to_be_visible()


def _no_apps(page: Page) -> None:
    page.goto("/apps")
    expect(page.get_by_text("Create your first app")).to_be_visible()


def _nothing_fits(page: Page) -> None:
    page.goto("/activity?kind=charge_payment")
    expect(page.get_by_text("No movements match these filters.")).to_be_visible()


def _wrong_filter(page: Page) -> None:
    page.goto("/activity?from=yesterday")
    expect(page.get_by_role("alert")).to_be_visible()


def _issued_key(page: Page) -> None:
    create_app(page, LONG_NAME)
    page.get_by_label("Key name").fill(LONG_NAME)
    page.get_by_role("button", name="Issue key").click()
    expect(page.get_by_label("Your key")).to_be_visible()


def _full_app(page: Page) -> None:
    create_app(page, "A full app")
    for label, value in (("Redirect URI", LONG_ADDRESS), ("Origin", "https://shop.example")):
        page.get_by_label(label).fill(value)
        page.get_by_role("button", name=f"Add {label[0].lower()}{label[1:]}").click()
        expect(page.get_by_text(value, exact=True)).to_be_visible()
    page.get_by_label("Key name").fill("first")
    page.get_by_role("button", name="Issue key").click()
    page.get_by_role("button", name="Rotate").click()
    expect(page.get_by_text("ends", exact=True)).to_be_visible()


def _connect_first(page: Page) -> None:
    app = create_app(page, LONG_NAME)
    page.get_by_label("Redirect URI").fill(LONG_ADDRESS)
    page.get_by_role("button", name="Add redirect URI").click()
    asked = {"client_id": app.removeprefix("/apps/"), "redirect_uri": LONG_ADDRESS}
    page.goto(f"/connect?{urlencode(asked | {'scope': 'profile balance'})}")
    expect(page.get_by_role("button", name="Allow")).to_be_visible()


def _no_connections(page: Page) -> None:
    page.goto("/connections")
    expect(page.get_by_text("No app can read your account.")).to_be_visible()


def _disconnected(page: Page) -> None:
    page.goto("/connections?done=disconnected")
    expect(page.get_by_text("The app is disconnected")).to_be_visible()


def _wrong_origin(page: Page) -> None:
    create_app(page, "Shop")
    page.get_by_label("Origin").fill("http://shop.example/path")
    page.get_by_role("button", name="Add origin").click()
    expect(page.locator("#origin-error")).to_be_visible()


def _app_with_keys_stays(page: Page) -> None:
    create_app(page, "Shop")
    page.get_by_label("Key name").fill("first")
    page.get_by_role("button", name="Issue key").click()
    page.get_by_role("button", name="Delete app").click()
    expect(page.get_by_role("alert")).to_be_visible()


def _key_to_revoke(page: Page) -> None:
    create_app(page, LONG_NAME)
    page.get_by_label("Key name").fill(LONG_NAME)
    page.get_by_role("button", name="Issue key").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", name="Revoke this key?")).to_be_visible()


def _app_to_delete(page: Page) -> None:
    create_app(page, LONG_NAME)
    page.get_by_role("button", name="Delete app").click()
    expect(page.get_by_role("heading", name="Delete this app?")).to_be_visible()


def _wrong_password(page: Page) -> None:
    page.goto("/settings")
    page.get_by_label("Current password").fill("wrong horse battery")
    page.get_by_label("New password").fill("a better horse battery")
    page.get_by_role("button", name="Change password").click()
    expect(page.locator("#current_password-error")).to_be_visible()


def _done(page: Page) -> None:
    page.goto("/settings?done=password")
    expect(page.get_by_role("status")).to_be_visible()


def _wrong_first_code(page: Page) -> None:
    page.goto("/settings/two-factor")
    page.get_by_label("Code", exact=True).fill("000000")
    page.get_by_role("button", name="Turn on").click()
    expect(page.locator("#code-error")).to_be_visible()


def _wrong_sending(page: Page) -> None:
    page.goto("/send?to=@nobody_at_all&amount=5,50")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".error")).to_have_count(2)


def _wrong_email_code(page: Page) -> None:
    page.goto("/verify-email")
    if not page.get_by_label("Code").count():
        page.get_by_role("button", name="Send a message").click()
    page.get_by_label("Code").fill("wrong")
    page.get_by_role("button", name="Confirm email").click()
    expect(page.locator("#code-error")).to_be_visible()


def _email_link(page: Page) -> None:
    page.goto("/verify-email")
    page.get_by_role("button", name="message").click()
    expect(page.get_by_role("status")).to_be_visible()
    page.goto("/sandbox/mail")
    page.get_by_role("link", name="/verify-email?token=").first.click()
    expect(page.get_by_role("button", name="Confirm email")).to_be_visible()


def _sandbox_mail(page: Page) -> None:
    page.goto("/sandbox/mail")
    expect(page.get_by_role("heading", name="Confirm your email").first).to_be_visible()


def _wrong_new_email(page: Page) -> None:
    page.goto("/settings/email")
    page.get_by_label("New email").fill("nobody@example.com")
    page.get_by_label("Password").fill("wrong horse battery")
    page.get_by_role("button", name="Change email").click()
    expect(page.locator("#password-error")).to_be_visible()


SIGNED_IN: dict[str, State] = {
    "verify-email-wrong-code": _wrong_email_code,
    "verify-email-link": _email_link,
    "sandbox-mail": _sandbox_mail,
    "email-change-wrong": _wrong_new_email,
    "send-wrong": _wrong_sending,
    "activity-nothing-yet": _nothing_yet,
    "apps-none": _no_apps,
    "activity-nothing-fits": _nothing_fits,
    "activity-wrong-filter": _wrong_filter,
    "app-issued-key": _issued_key,
    "app-full": _full_app,
    "connect-first": _connect_first,
    "connections-none": _no_connections,
    "connections-disconnected": _disconnected,
    "app-wrong-origin": _wrong_origin,
    "app-with-keys-stays": _app_with_keys_stays,
    "key-to-revoke": _key_to_revoke,
    "app-to-delete": _app_to_delete,
    "settings-wrong-password": _wrong_password,
    "settings-done": _done,
    "two-factor-wrong-code": _wrong_first_code,
}


def _recovery_codes(page: Page) -> None:
    sign_up(page, "hedy", **{"Display name": "W" * 100})
    turn_on_factor(page)


def _factor_on(page: Page) -> None:
    page.goto("/settings/two-factor")
    expect(page.get_by_role("button", name="Turn off")).to_be_visible()


def _factor_in_settings(page: Page) -> None:
    page.goto("/settings")
    expect(page.get_by_text("recovery codes are left")).to_be_visible()


def _wrong_code_at_sign_in(page: Page) -> None:
    page.context.clear_cookies()
    sign_in(page, "hedy")
    page.get_by_label("Code").fill("000000")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_be_visible()


WITH_SECOND_FACTOR: dict[str, State] = {
    "recovery-codes": _recovery_codes,
    "two-factor-on": _factor_on,
    "settings-two-factor": _factor_in_settings,
    "code-wrong": _wrong_code_at_sign_in,
}


def _confirm_sending(page: Page) -> None:
    """Hedy, whose name is as long as can be, has signed up by now."""
    filled = {"to": "@hedy", "amount": "1,234.567891", "note": LONG_NAME}
    page.goto(f"/send?{urlencode(filled)}")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Send to")).to_be_visible()


def _receipt_of_sending(page: Page) -> None:
    page.get_by_role("button", name="Send 1,234.567891 OUSD").click()
    expect(page.get_by_text("has received 1,234.567891 OUSD.")).to_be_visible()


def _sent_already(page: Page) -> None:
    page.go_back()
    expect(page.get_by_text("You have sent this already")).to_be_visible()


SENDING: dict[str, State] = {
    "send-confirm": _confirm_sending,
    "send-receipt": _receipt_of_sending,
    "send-already": _sent_already,
}


def identity_checks(forget_checks: Callable[[], None]) -> dict[str, State]:
    """Return the states in which a page asks for the password or code again."""

    def asks_for_password(page: Page) -> None:
        sign_up(page, "ida")
        forget_checks()
        page.goto("/settings/two-factor")
        expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()

    def wrong_password(page: Page) -> None:
        page.get_by_label("Password").fill("wrong horse battery")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#identity_password-error")).to_be_visible()

    def asks_for_code(page: Page) -> None:
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Continue").click()
        turn_on_factor(page)
        forget_checks()
        page.goto("/settings")
        page.get_by_label("Current password").fill(PASSWORD)
        page.get_by_label("New password").fill("a better horse battery")
        page.get_by_role("button", name="Change password").click()
        expect(page.get_by_label("Code")).to_be_visible()

    return {
        "identity-check": asks_for_password,
        "identity-check-wrong": wrong_password,
        "identity-check-code": asks_for_code,
    }


def reflecting_urls(hostile: str) -> list[str]:
    """Return addresses that carry a text which their page may show."""
    text = quote(hostile)
    return [
        f"/login?next=/{text}",
        f"/signup?next=/{text}",
        f"/activity?from={text}&kind={text}",
        f"/settings?done={text}",
        f"/forgot?done={text}",
        f"/reset?token={text}",
        f"/settings/history?before={text}",
        f"/settings/passkeys?done={text}",
        f"/settings/passkeys/{text}",
        f"/{text}",
        f"/apps/{text}",
        f"/connect?client_id={text}&redirect_uri={text}",
        f"/pay/{text}",
        f"/send?to={text}&amount={text}&note={text}",
    ]
