"""Pages that create, show, rename and delete apps, and show first steps and recent errors."""

from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField
from ousel.partners.app_service import AppService
from ousel.partners.service import AppHasKeys
from ousel.people.event_source import event_source
from ousel.portal.app_editor import AppEditor
from ousel.portal.app_overview import AppOverviewService
from ousel.portal.repeatable_requests import repeatable_request
from ousel.site.cookies import Cookies
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit


class AppPages:
    """Serves a partner's apps."""

    def __init__(
        self,
        pages: PageRenderer,
        apps: AppService,
        overviews: AppOverviewService,
        editor: AppEditor,
        cookies: Cookies,
    ) -> None:
        """Read and change apps with these services; read the session's secret with `cookies`."""
        self._pages = pages
        self._apps = apps
        self._overviews = overviews
        self._editor = editor
        self._cookies = cookies

    def routes(self) -> list[PageRoute]:
        """Return the routes of apps."""
        return [
            PageRoute(method="GET", path="/apps", answer=self.show_all),
            PageRoute(method="GET", path="/apps/new", answer=self.show_new),
            PageRoute(method="POST", path="/apps/new", answer=self.create),
            PageRoute(method="GET", path="/apps/{client_id}", answer=self.show),
            PageRoute(method="POST", path="/apps/{client_id}/rename", answer=self.rename),
            PageRoute(method="GET", path="/apps/{client_id}/delete", answer=self.ask_to_delete),
            PageRoute(method="POST", path="/apps/{client_id}/delete", answer=self.delete),
            PageRoute(method="GET", path="/apps/{client_id}/first-steps", answer=self.first_steps),
            PageRoute(method="GET", path="/apps/{client_id}/errors", answer=self.errors),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show the person's apps."""
        apps = await self._apps.list_apps(visit.signed_in.account_id)
        return self._pages.render("portal/apps.html", visit, apps=apps)

    async def show_new(self, visit: Visit) -> Answer:
        """Show the form that creates an app."""
        return self._pages.render("portal/app_new.html", visit)

    async def create(self, visit: Visit) -> Answer:
        """Create an app."""
        name = visit.form.get("name", "")
        try:
            app = await self._apps.create(
                visit.signed_in.account_id,
                name,
                repeatable_request(visit, self._cookies, name),
                event_source(visit),
            )
        except InvalidField as refusal:
            return self._pages.render("portal/app_new.html", visit, refusal=refusal)
        return see_other(f"/apps/{app.id}")

    async def show(self, visit: Visit) -> Answer:
        """Show an app with its keys and addresses."""
        return await self._editor.page(visit)

    async def rename(self, visit: Visit) -> Answer:
        """Rename the app."""
        name = visit.form.get("name", "")
        change = self._apps.rename(
            visit.signed_in.account_id, visit.path["client_id"], name, event_source(visit)
        )
        return await self._editor.apply(visit, change)

    async def ask_to_delete(self, visit: Visit) -> Answer:
        """If the app can be deleted, explain the consequences and ask whether to delete it."""
        try:
            app, people_connected = await self._overviews.read_deletable(
                visit.signed_in.account_id, visit.path["client_id"]
            )
        except AppHasKeys as refusal:
            return await self._editor.page(visit, refusal)
        return self._pages.render(
            "portal/app_delete.html", visit, app=app, people_connected=people_connected
        )

    async def delete(self, visit: Visit) -> Answer:
        """Delete the app."""
        try:
            await self._apps.delete(
                visit.signed_in.account_id, visit.path["client_id"], event_source(visit)
            )
        except AppHasKeys as refusal:
            return await self._editor.page(visit, refusal)
        return see_other("/apps")

    async def first_steps(self, visit: Visit) -> Answer:
        """Show how to make the first calls, with this app's own client id."""
        app = await self._apps.get(visit.signed_in.account_id, visit.path["client_id"])
        return self._pages.render("portal/first_steps.html", visit, app=app)

    async def errors(self, visit: Visit) -> Answer:
        """Show the app's recent refused calls."""
        app, errors = await self._apps.get_with_errors(
            visit.signed_in.account_id, visit.path["client_id"]
        )
        return self._pages.render("portal/app_errors.html", visit, app=app, errors=errors)
