"""The lab: starts and ends rehearsals, and records the calls of the apps that rehearse."""

import asyncio
import secrets

import msgspec

from ousel.database.batching import SharedReads
from ousel.database.port import Database, Transaction
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.deadlines import NO_DEADLINE, set_deadline
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import new_id, new_secret, secret_hash
from ousel.kernel.logs import EventLogger
from ousel.lab import store
from ousel.lab.grading import Report, grade_calls
from ousel.lab.rules import (
    OPEN_RETURN,
    SECONDS_MAX,
    Plan,
    RecordedCall,
    Rehearsal,
    RehearsalName,
    is_rehearsal_id,
    plan_call,
)
from ousel.partners import service as partners
from ousel.partners.rules import App

_log = EventLogger()


class RehearsalNotFound(Refusal):
    """The app has no rehearsal with this id; only the newest ones are kept."""

    status = 404
    code = "rehearsal_not_found"
    title = "There is no such rehearsal"
    cure = "Start a rehearsal, and use the id in the answer."


class GradedRehearsal(msgspec.Struct, frozen=True):
    """A rehearsal with its calls and its grades."""

    rehearsal: Rehearsal
    is_running: bool
    calls: list[RecordedCall]
    report: Report


class LabView(msgspec.Struct, frozen=True):
    """Everything that the page of the lab shows."""

    app: App
    rehearsals: list[Rehearsal]
    shown: GradedRehearsal | None


class ArrivedCall(msgspec.Struct, frozen=True):
    """A recorded call that is about to be answered."""

    rehearsal: Rehearsal
    call: RecordedCall
    plan: Plan
    earlier: list[RecordedCall]


class LabService:
    """Reads and writes rehearsals; their times are those of the real clock, not the sandbox's."""

    def __init__(self, database: Database, real_clock: Clock) -> None:
        """Record calls in this database."""
        self._database = database
        self._clock = real_clock
        self._running = SharedReads(database, self._read_running)

    async def start(self, account_id: str, app_id: str, name: RehearsalName) -> GradedRehearsal:
        """Start a rehearsal of the app, and end an earlier one that still runs."""
        now = self._clock()
        rehearsal = Rehearsal(
            account_id=account_id,
            id=new_id("reh_", self._clock),
            app_id=app_id,
            name=name,
            started_at=now,
            ends_at=now + SECONDS_MAX * MICROS_PER_SECOND,
        )

        async def work(transaction: Transaction) -> None:
            app = await partners.own_app(transaction, account_id, app_id)
            if name == "forged-return" and not await partners.redirect_uris_of(transaction, app):
                raise InvalidField("Register a redirect URI for the app first.", param="rehearsal")
            await store.finish(transaction, account_id, app_id, now)
            await store.add(transaction, rehearsal)

        await self._database.write(work)
        return self._grade(rehearsal, [])

    async def get(self, account_id: str, app_id: str, rehearsal_id: str) -> GradedRehearsal:
        """Return the app's rehearsal with its grades so far."""
        return await self._database.read(
            lambda transaction: self._get(transaction, account_id, app_id, rehearsal_id)
        )

    async def finish(self, account_id: str, app_id: str, rehearsal_id: str) -> GradedRehearsal:
        """End the app's rehearsal now, and return it with its grades."""

        async def work(transaction: Transaction) -> GradedRehearsal:
            found = await self._get(transaction, account_id, app_id, rehearsal_id)
            if not found.is_running:
                return found
            await store.finish(transaction, account_id, app_id, self._clock())
            return await self._get(transaction, account_id, app_id, rehearsal_id)

        return await self._database.write(work)

    async def view(self, account_id: str, app_id: str, rehearsal_id: str | None) -> LabView:
        """Return the account's own app with its rehearsals; show this one, or the newest."""

        async def read(transaction: Transaction) -> LabView:
            app = await partners.own_app(transaction, account_id, app_id)
            rehearsals = await store.of_app(transaction, account_id, app_id)
            shown_id = rehearsal_id or (rehearsals[0].id if rehearsals else None)
            if shown_id is None:
                return LabView(app, rehearsals, None)
            shown = await self._get(transaction, account_id, app_id, shown_id)
            return LabView(app, rehearsals, shown)

        return await self._database.read(read)

    async def running_rehearsal(self, app_id: str) -> Rehearsal | None:
        """Return the running rehearsal of an app."""
        return await self._running.get(app_id)

    async def running_rehearsal_with_code(self, code: str) -> Rehearsal | None:
        """Return the running rehearsal whose forged return has this code."""
        now, code_hash = self._clock(), secret_hash(code)
        return await self._database.read(
            lambda transaction: store.by_code(transaction, code_hash, now)
        )

    async def begin_call(self, rehearsal: Rehearsal, call: RecordedCall) -> ArrivedCall | None:
        """Record a call that arrived, and plan its answer; None if the rehearsal has ended.

        If the client hangs up meanwhile, this is recorded as well.
        """
        now = self._clock()

        async def work(transaction: Transaction) -> ArrivedCall | None:
            sequence = await store.count_call(transaction, rehearsal, now)
            if sequence is None:
                return None
            earlier = await store.calls_of(transaction, rehearsal)
            arrived = msgspec.structs.replace(call, sequence=sequence, arrived_at=now)
            plan = plan_call(rehearsal.name, arrived, earlier)
            arrived = msgspec.structs.replace(
                arrived,
                disturbance=plan.disturbance,
                event=plan.event,
                charge_id=plan.charge_id or arrived.charge_id,
            )
            await store.add_call(transaction, rehearsal, arrived)
            return ArrivedCall(rehearsal, arrived, plan, earlier)

        beginning = asyncio.ensure_future(self._database.write(work))
        try:
            return await run_to_end(beginning)
        except asyncio.CancelledError:
            if (begun := beginning.result()) is not None:
                await self.end_call(begun, msgspec.structs.replace(begun.call, event=None))
            raise

    async def end_call(self, arrived: ArrivedCall, call: RecordedCall) -> None:
        """Record how a call was answered, or that the client has hung up.

        If this fails, the answer is sent all the same.
        """
        set_deadline(NO_DEADLINE)  # that of the request may have passed: some answers are slow
        answered = msgspec.structs.replace(call, answered_at=self._clock())
        try:
            await run_to_end(
                self._database.write(
                    lambda transaction: store.change_call(transaction, arrived.rehearsal, answered)
                )
            )
        except Refusal as refusal:
            _log.warning("an answer was not recorded in the lab", reason=refusal.detail)

    async def open_forged_return(self, rehearsal_id: str) -> tuple[str, str, str]:
        """Return the app's redirect URI, a code that is not valid and a state; record the visit."""
        code, state = new_secret("ac_"), secrets.token_urlsafe(16)
        now = self._clock()

        async def work(transaction: Transaction) -> str:
            rehearsal = await _find(transaction, rehearsal_id)
            app = (
                None
                if rehearsal is None
                else await partners.find_app(transaction, rehearsal.app_id)
            )
            if rehearsal is None or app is None or rehearsal.name != "forged-return":
                raise _not_found()
            redirect_uris = await partners.redirect_uris_of(transaction, app)
            sequence = await store.count_call(transaction, rehearsal, now)
            if sequence is None or not redirect_uris:
                raise _not_found()
            await store.set_code(transaction, rehearsal, secret_hash(code))
            await store.add_call(transaction, rehearsal, _visit(sequence, now))
            return redirect_uris[0]

        return await self._database.write(work), code, state

    async def _read_running(
        self, transaction: Transaction, app_ids: list[str]
    ) -> dict[str, Rehearsal | None]:
        return await store.running_rehearsals(transaction, app_ids, self._clock())

    async def _get(
        self, transaction: Transaction, account_id: str, app_id: str, rehearsal_id: str
    ) -> GradedRehearsal:
        rehearsal = await _find(transaction, rehearsal_id)
        if rehearsal is None or (rehearsal.account_id, rehearsal.app_id) != (account_id, app_id):
            raise _not_found()
        return self._grade(rehearsal, await store.calls_of(transaction, rehearsal))

    def _grade(self, rehearsal: Rehearsal, calls: list[RecordedCall]) -> GradedRehearsal:
        is_running = rehearsal.is_running_at(self._clock())
        report = grade_calls(rehearsal.name, calls, has_ended=not is_running)
        return GradedRehearsal(rehearsal, is_running, calls, report)


async def _find(transaction: Transaction, rehearsal_id: str) -> Rehearsal | None:
    if not is_rehearsal_id(rehearsal_id):
        return None
    return await store.by_id(transaction, rehearsal_id)


def _not_found() -> RehearsalNotFound:
    return RehearsalNotFound("This app has no such rehearsal.", param="id")


def _visit(sequence: int, now: int) -> RecordedCall:
    return RecordedCall(
        sequence=sequence,
        operation=OPEN_RETURN,
        method="GET",
        path="forged return",
        arrived_at=now,
        answered_at=now,
        status=303,
    )
