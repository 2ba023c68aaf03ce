"""A person who visits pages: keeps cookies, fills in forms and sends them."""

from urllib.parse import urlencode

import httpx2

from tests.support.authenticator import Authenticator
from tests.support.forms import Form, form_with

PASSWORD = "correct horse battery"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
)


class Visitor:
    """A browser without a screen: keeps cookies, fills in forms and sends them."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open a page, without following redirects."""
        return await self.client.get(path, headers=headers)

    async def form(self, path: str, button: str) -> Form:
        """Return the form with this button on a page."""
        return form_with((await self.get(path)).text, button)

    async def post(self, action: str, fields: dict[str, str], **headers: str) -> httpx2.Response:
        """Send a form's fields."""
        return await self.client.post(
            action,
            content=urlencode(fields, errors="surrogatepass"),
            headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
        )

    async def press(self, path: str, button: str, **fields: str) -> httpx2.Response:
        """Open a page, fill in the form with this button, and press it."""
        form = await self.form(path, button)
        return await self.send(form, form.pressed(button, fields))

    async def press_and_confirm(self, path: str, button: str) -> httpx2.Response:
        """Press a button, and then the button with the same name on the page that follows."""
        asked = await self.press(path, button)
        assert asked.status_code == 200, asked.text
        form = form_with(asked.text, button)
        return await self.send(form, form.pressed(button, {}))

    async def send(self, form: Form, fields: dict[str, str]) -> httpx2.Response:
        """Send a form with its own method, as a browser does."""
        if form.method == "post":
            return await self.post(form.action, fields)
        return await self.client.get(form.action, params=fields)

    async def use_passkey(
        self,
        path: str,
        button: str,
        authenticator: Authenticator,
        options: str | None = None,
        **fields: str,
    ) -> httpx2.Response:
        """Press a button that makes or uses a passkey, as the script of the page does."""
        form = await self.form(path, button)
        token = {"form_token": form.fields["form_token"]}
        asked = await self.post(options or f"{form.action}/options", token)
        assert asked.status_code == 200, asked.text
        answer = authenticator.make if "user" in asked.json() else authenticator.sign
        field = "identity_passkey" if "identity_passkey" in form.fields else "credential"
        filled = fields | {field: answer(asked.json())}
        return await self.send(form, form.pressed(button, filled))

    async def sign_up(self, username: str, /, **fields: str) -> httpx2.Response:
        """Create an account."""
        filled = {
            "username": username,
            "email": f"{username}@example.com",
            "display_name": username.title(),
            "password": PASSWORD,
        }
        return await self.press("/signup", "Create account", **filled | fields)

    async def sign_in(
        self, identifier: str, password: str = PASSWORD, page: str = "/login"
    ) -> httpx2.Response:
        """Sign in with a password."""
        return await self.press(page, "Sign in", identifier=identifier, password=password)

    async def is_signed_in(self) -> bool:
        """Return whether the visitor is signed in."""
        return (await self.get("/settings")).status_code == 200

    async def create_app(self, name: str = "Shop") -> str:
        """Create an app, and return the path of its page."""
        created = await self.press("/apps/new", "Create app", name=name)
        assert created.status_code == 303, created.text
        return created.headers["location"]

    async def issue_key(self, app: str, name: str = "server") -> str:
        """Issue a key, and return it."""
        return shown_key(await self.press(app, "Issue key", key_name=name))


def secret_of(html: str, element_id: str) -> str:
    """Return the secret in the field with this id."""
    return html.partition(f'<textarea id="{element_id}"')[2].partition(">")[2].partition("<")[0]


def shown_key(page: httpx2.Response) -> str:
    """Return the new key that this page shows."""
    key = secret_of(page.text, "new-key")
    assert key, page.text
    return key
