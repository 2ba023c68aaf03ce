"""POST /sandbox/lab, GET /sandbox/lab/:id and POST /sandbox/lab/:id/finish."""

from typing import Annotated, Final

import msgspec

from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, json_answer
from ousel.lab.records import RehearsalRecord, rehearsal_record
from ousel.lab.rules import RehearsalName
from ousel.lab.service import LabService, RehearsalNotFound

_ID: Final = {"id": "The rehearsal's id."}


class RehearsalRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to rehearse."""

    rehearsal: Annotated[
        RehearsalName, msgspec.Meta(extra_json_schema={"examples": ["answer-lost-after-commit"]})
    ]


class LabEndpoints:
    """Serves tests, such as those in a partner's CI, that rehearse failures."""

    def __init__(self, lab: LabService, portal_url: str) -> None:
        """Start and grade rehearsals in this lab."""
        self._lab = lab
        self._portal_url = portal_url

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            Route(
                method="POST",
                path=f"{base}/sandbox/lab",
                endpoint=self.start,
                name="startRehearsal",
                summary="Start a rehearsal",
                description=(
                    "From now on, the calls of your app are recorded, and disturbed as the "
                    "rehearsal says. If another rehearsal of the app is still running, it ends. "
                    "Calls below /sandbox are neither recorded nor disturbed."
                ),
                body=RehearsalRequest,
                successes={200: AnswerDescription("The rehearsal runs.", RehearsalRecord)},
            ),
            Route(
                method="GET",
                path=f"{base}/sandbox/lab/{{id}}",
                endpoint=self.get,
                name="getRehearsal",
                summary="Read the grades of a rehearsal",
                path_parameters=_ID,
                successes={200: AnswerDescription("The grades so far.", RehearsalRecord)},
                refusals=(RehearsalNotFound,),
            ),
            Route(
                method="POST",
                path=f"{base}/sandbox/lab/{{id}}/finish",
                endpoint=self.finish,
                name="finishRehearsal",
                summary="End a rehearsal and read its grades",
                description="A call that has not arrived by then counts as never made.",
                path_parameters=_ID,
                successes={200: AnswerDescription("The final grades.", RehearsalRecord)},
                refusals=(RehearsalNotFound,),
            ),
        ]

    async def start(self, call: Call[RehearsalRequest, NoQuery]) -> Answer:
        """Start a rehearsal of the caller's app."""
        partner = call.partner
        started = await self._lab.start(partner.account_id, partner.client_id, call.body.rehearsal)
        return json_answer(rehearsal_record(started, self._portal_url))

    async def get(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the rehearsal as it is now."""
        partner = call.partner
        found = await self._lab.get(partner.account_id, partner.client_id, call.path["id"])
        return json_answer(rehearsal_record(found, self._portal_url))

    async def finish(self, call: Call[NoBody, NoQuery]) -> Answer:
        """End the rehearsal."""
        partner = call.partner
        ended = await self._lab.finish(partner.account_id, partner.client_id, call.path["id"])
        return json_answer(rehearsal_record(ended, self._portal_url))
