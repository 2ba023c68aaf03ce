"""The page of the lab: a partner chooses a rehearsal, and reads what happened and the grades."""

from typing import Any

from ousel.http.messages import Answer
from ousel.kernel.errors import InvalidField
from ousel.kernel.settings import Settings
from ousel.lab.advice import next_step, what_happened
from ousel.lab.grading import RULE_TITLES, Grade
from ousel.lab.records import return_url
from ousel.lab.rules import DESCRIPTIONS
from ousel.lab.service import GradedRehearsal, LabService, LabView
from ousel.oauth.connect_urls import callback_url
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit


class LabPages:
    """Serves the lab to the owner of an app."""

    def __init__(self, pages: PageRenderer, lab: LabService, settings: Settings) -> None:
        """Start and show rehearsals in this lab."""
        self._pages = pages
        self._lab = lab
        self._portal_url = settings.portal_url

    def routes(self) -> list[PageRoute]:
        """Return the routes of the lab."""
        path = "/apps/{client_id}/lab"
        return [
            PageRoute(method="GET", path=path, answer=self.show),
            PageRoute(method="POST", path=path, answer=self.start),
            PageRoute(method="POST", path=f"{path}/finish", answer=self.finish),
            PageRoute(
                method="GET",
                path="/sandbox/lab/{id}/return",
                answer=self.forged_return,
                for_everyone=True,
            ),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show the rehearsals to choose from, and the newest or the chosen one."""
        return await self._page(visit)

    async def start(self, visit: Visit) -> Answer:
        """Start the chosen rehearsal."""
        name = visit.form.get("rehearsal", "")
        client_id = visit.path["client_id"]
        try:
            if name not in DESCRIPTIONS:
                raise InvalidField("Choose a rehearsal.", param="rehearsal")  # noqa: TRY301
            await self._lab.start(visit.signed_in.account_id, client_id, name)
        except InvalidField as refusal:
            return await self._page(visit, refusal)
        return see_other(f"/apps/{client_id}/lab")

    async def finish(self, visit: Visit) -> Answer:
        """End the rehearsal, and show its grades."""
        client_id, rehearsal_id = visit.path["client_id"], visit.form.get("id", "")
        await self._lab.finish(visit.signed_in.account_id, client_id, rehearsal_id)
        return see_other(f"/apps/{client_id}/lab?rehearsal={rehearsal_id}")

    async def forged_return(self, visit: Visit) -> Answer:
        """Send the visitor back to the app with a state that the app never sent."""
        redirect_uri, code, state = await self._lab.open_forged_return(visit.path["id"])
        parameters: dict[str, str | bytes | None] = {
            "code": code,
            "state": state,
            "iss": self._portal_url,
        }
        return see_other(callback_url(redirect_uri, parameters))

    async def _page(self, visit: Visit, refusal: InvalidField | None = None) -> Answer:
        view = await self._lab.view(
            visit.signed_in.account_id, visit.path["client_id"], visit.query.get("rehearsal")
        )
        context: dict[str, Any] = {
            "view": view,
            "descriptions": DESCRIPTIONS,
            "rule_titles": RULE_TITLES,
            "what_happened": what_happened,
            "next_step": next_step,
            "return_url": None if view.shown is None else return_url(view.shown, self._portal_url),
            "faults": _faults(view),
            "key_names": {} if view.shown is None else _key_names(view.shown),
        }
        return self._pages.render("lab/lab.html", visit, refusal=refusal, **context)


def _faults(view: LabView) -> dict[int, list[Grade]]:
    """Return the broken rules at each call, by the call's number."""
    faults: dict[int, list[Grade]] = {}
    for grade in [] if view.shown is None else view.shown.report.grades:
        if grade.verdict == "failed":
            for sequence in grade.calls:
                faults.setdefault(sequence, []).append(grade)
    return faults


def _key_names(graded: GradedRehearsal) -> dict[str, str]:
    """Return a short name for each idempotency key, because only hashes are stored."""
    hashes = dict.fromkeys(call.key for call in graded.calls if call.key is not None)
    return {each: f"key {number}" for number, each in enumerate(hashes, 1)}
