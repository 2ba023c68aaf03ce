"""Apps: create, show, rename, delete; their first steps and recent errors."""

from typing import Final

from ousel.database.port import Transaction
from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField
from ousel.oauth.service import count_users
from ousel.partners import service, store
from ousel.partners.rules import ApiError, App
from ousel.partners.service import AppHasKeys, NewApp
from ousel.portal.app_editor import AppEditor, check_room
from ousel.portal.sign_in import field_errors
from ousel.site.redirects import see_other
from ousel.site.visits import PageRoute, Visit

APPS_MAX: Final = 50  # of one account


class AppPages:
    """Serves a partner's apps."""

    def __init__(self, editor: AppEditor) -> None:
        """Show and change apps at this desk."""
        self._editor = editor
        self._pages = editor.pages
        self._database = editor.database

    def routes(self) -> list[PageRoute]:
        """Return the routes of apps."""
        return [
            PageRoute(method="GET", path="/apps", handle=self.show_all),
            PageRoute(method="GET", path="/apps/new", handle=self.show_new),
            PageRoute(method="POST", path="/apps/new", handle=self.create),
            PageRoute(method="GET", path="/apps/{client_id}", handle=self.show),
            PageRoute(method="POST", path="/apps/{client_id}/rename", handle=self.rename),
            PageRoute(method="GET", path="/apps/{client_id}/delete", handle=self.ask_to_delete),
            PageRoute(method="POST", path="/apps/{client_id}/delete", handle=self.delete),
            PageRoute(method="GET", path="/apps/{client_id}/first-steps", handle=self.first_steps),
            PageRoute(method="GET", path="/apps/{client_id}/errors", handle=self.errors),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show the person's apps."""
        account_id = visit.signed_in.account_id
        apps = await self._database.read(lambda transaction: store.apps_of(transaction, account_id))
        return self._pages.render("portal/apps.html", visit, apps=apps)

    async def show_new(self, visit: Visit) -> Answer:
        """Show the form that creates an app."""
        return self._pages.render("portal/app_new.html", visit, errors={})

    async def create(self, visit: Visit) -> Answer:
        """Create an app."""
        new = NewApp(account_id=visit.signed_in.account_id, name=visit.form.get("name", ""))

        async def work(transaction: Transaction) -> App:
            apps = await store.apps_of(transaction, new.account_id)
            check_room(len(apps), APPS_MAX, "apps", param="name")
            app = await service.create_app(transaction, new, self._editor.clock)
            await self._editor.record(transaction, visit, "app_created", app.name)
            return app

        try:
            app = await self._database.write(work)
        except InvalidField as refusal:
            return self._pages.render(
                "portal/app_new.html", visit, status=refusal.status, errors=field_errors(refusal)
            )
        return see_other(f"/apps/{app.id}")

    async def show(self, visit: Visit) -> Answer:
        """Show an app with its keys and addresses."""
        return await self._editor.page(visit)

    async def rename(self, visit: Visit) -> Answer:
        """Rename the app."""

        async def change(transaction: Transaction, app: App) -> None:
            name = visit.form.get("name", "")
            await service.rename_app(transaction, app, name)
            detail = f"{app.name} → {name.strip()}"
            await self._editor.record(transaction, visit, "app_renamed", detail)

        return await self._editor.change(visit, change)

    async def ask_to_delete(self, visit: Visit) -> Answer:
        """Show which app would go and what follows, once it can be deleted."""

        async def read(transaction: Transaction) -> tuple[App, int]:
            app = await self._editor.own_app(transaction, visit)
            await service.check_deletable(transaction, app, self._editor.clock)
            return app, await count_users(transaction, app.id, self._editor.clock())

        try:
            app, people_connected = await self._database.read(read)
        except AppHasKeys as refusal:
            return await self._editor.page(visit, refusal)
        return self._pages.render(
            "portal/app_delete.html", visit, app=app, people_connected=people_connected
        )

    async def delete(self, visit: Visit) -> Answer:
        """Delete the app."""

        async def change(transaction: Transaction, app: App) -> None:
            await service.delete_app(transaction, app, self._editor.clock)
            await self._editor.record(transaction, visit, "app_deleted", app.name)

        try:
            await self._editor.write(visit, change)
        except AppHasKeys as refusal:
            return await self._editor.page(visit, refusal)
        return see_other("/apps")

    async def first_steps(self, visit: Visit) -> Answer:
        """Show how to make the first calls, with this app's own client id."""
        app = await self._database.read(
            lambda transaction: self._editor.own_app(transaction, visit)
        )
        return self._pages.render("portal/first_steps.html", visit, app=app)

    async def errors(self, visit: Visit) -> Answer:
        """Show the app's recent calls that were refused."""

        async def read(transaction: Transaction) -> tuple[App, list[ApiError]]:
            app = await self._editor.own_app(transaction, visit)
            return app, await store.api_errors_of(transaction, app)

        app, errors = await self._database.read(read)
        return self._pages.render("portal/app_errors.html", visit, app=app, errors=errors)
