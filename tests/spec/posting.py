"""A model of posting: every step that processes, clients and faults can take from a state.

The steps are those of `ousel.ledger.queue`; what a batch moves is decided by the real rules.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from tests.spec.deciding import Decisions
from tests.spec.world import (
    Client,
    Glance,
    Intent,
    Journal,
    Process,
    Request,
    Setting,
    Told,
    Work,
    World,
)

Step = tuple[str, World]

changed = msgspec.structs.replace


class PostingModel:
    """The steps of posting in one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._decisions = Decisions(setting)

    def steps(self, world: World) -> Iterator[Step]:
        """Yield what can happen next, each with its name."""
        yield from self._clients(world)
        for index, process in enumerate(world.processes):
            yield from self._process(world, index, process)
        yield from self._orphans(world)
        if world.faults_left:
            yield from self._faults(changed(world, faults_left=world.faults_left - 1))

    def _clients(self, world: World) -> Iterator[Step]:
        for number, client in enumerate(world.clients):
            if client.mood != "wants":
                continue
            asking = Client("waits", client.attempt + 1)
            request = Request(number, asking.attempt)
            for index, process in enumerate(world.processes):
                joined = changed(process, waiting=(*process.waiting, request))
                asked = changed(world, clients=_put(world.clients, number, asking))
                yield f"{_client(number)} asks {_name(index)}", _with(asked, index, joined)

    def _process(self, world: World, index: int, process: Process) -> Iterator[Step]:
        match process.phase:
            case "idle":
                if process.waiting:
                    glance = self._glance(world, process.waiting)
                    begun = Process("begun", batch=process.waiting, glance=glance)
                    label = f"{_name(index)} takes up what waits and begins to lock"
                    yield label, _with(world, index, begun)
            case "begun":
                yield from self._locked(world, index, process)
            case "written":
                label = f"{_name(index)} sends its commit"
                following = _with(world, index, changed(process, phase="committing"))
                if not self.setting.design.commits_before_answering:
                    label += " and answers"
                    following = _answered(following, process.told)
                yield label, following
            case "committing":
                committed = _committed(world, process.work)
                label = f"the commit of {_name(index)} takes effect"
                yield label, _with(committed, index, changed(process, phase="committed"))
            case "committed":
                yield from self._answers(world, index, process)

    def _glance(self, world: World, batch: tuple[Request, ...]) -> Glance:
        """Return what is true at the start of the statement that locks."""
        wanted = {(intent.debit, intent.key) for intent in map(self._intent, batch) if intent.key}
        used = {(intent.debit, intent.key) for intent in map(self._intent, _requests(world))}
        debited = {self._intent(request).debit for request in batch}
        sequences = tuple((name, head.sequence) for name, head in world.heads if name in debited)
        return Glance(not wanted.isdisjoint(used), sequences)

    def _keys_known(self, world: World, glance: Glance) -> Journal:
        """Return the movements whose keys the process knows, once it has its locks."""
        heads = dict(world.heads)
        overtaken = any(heads[name].sequence != before for name, before in glance.sequences)
        if overtaken and self.setting.design.reads_keys_again_if_overtaken:
            return world.journal
        return world.journal if glance.keys_used else ()

    def _locked(self, world: World, index: int, process: Process) -> Iterator[Step]:
        """Lock the next account; behind the last lock, read, decide and write."""
        if process.glance is None:
            again = changed(process, glance=self._glance(world, process.batch))
            yield f"{_name(index)} begins to lock again", _with(world, index, again)
            return
        wanted = self._accounts(process.batch)
        if not self.setting.design.locks_at_all:
            yield f"{_name(index)} reads and writes", self._written(world, index, process, ())
            return
        account = wanted[len(process.work.locked)]
        if account in _locks(world):
            return
        locked = (*process.work.locked, account)
        label = f"{_name(index)} locks {account}"
        if len(locked) == len(wanted):
            yield f"{label}, reads and writes", self._written(world, index, process, locked)
        else:
            yield label, _with(world, index, changed(process, work=Work(locked=locked)))

    def _accounts(self, batch: Iterable[Request]) -> list[str]:
        intents = [self.setting.intents[request.intent] for request in batch]
        touched = list(dict.fromkeys(chain(*((each.debit, each.credit) for each in intents))))
        return sorted(touched) if self.setting.design.locks_in_one_order else touched

    def _written(
        self, world: World, index: int, process: Process, locked: tuple[str, ...]
    ) -> World:
        settled = self._settled_before(world, process)
        fresh = tuple(request for request in process.batch if request not in settled)
        assert process.glance is not None
        keys = self._keys_known(world, process.glance)
        told, work = self._decisions.on(fresh, world.heads, keys)
        touched = self._accounts(process.batch)
        found = {name: head.sequence for name, head in world.heads if name in touched}
        written = changed(
            process,
            phase="written",
            work=changed(work, locked=locked),
            told=told + tuple((request, request) for request in settled),
            sequences=tuple(sorted((found | dict(process.sequences)).items())),
        )
        return _with(world, index, written)

    def _settled_before(self, world: World, process: Process) -> list[Request]:
        """Return the requests whose movements were written since the first attempt began."""
        if not (process.in_doubt and self.setting.design.looks_after_unknown_commit):
            return []
        since = dict(process.sequences)
        return [
            movement.request
            for movement in world.journal
            if movement.request in process.batch
            and movement.debit_sequence > since[self._intent(movement.request).debit]
        ]

    def _answers(self, world: World, index: int, process: Process) -> Iterator[Step]:
        rested = _with(world, index, Process(waiting=process.waiting))
        yield f"{_name(index)} answers", _answered(rested, process.told)
        if world.faults_left:
            poorer = changed(rested, faults_left=world.faults_left - 1)
            for lost, _ in process.told:
                kept = tuple(each for each in process.told if each[0] != lost)
                label = f"{_name(index)} answers; {_client(lost.intent)}'s answer is lost"
                yield label, self._abandoned(_answered(poorer, kept), [lost])

    def _orphans(self, world: World) -> Iterator[Step]:
        for number, work in enumerate(world.orphans):
            left = changed(world, orphans=world.orphans[:number] + world.orphans[number + 1 :])
            yield "a commit whose answer nobody awaits takes effect", _committed(left, work)
            yield "a commit whose answer nobody awaits is rolled back", left

    def _faults(self, world: World) -> Iterator[Step]:
        for index, process in enumerate(world.processes):
            if process != Process():
                killed = self._abandoned(_left(world, process), process.waiting + process.batch)
                yield f"{_name(index)} is killed", _with(killed, index, Process())
            if process.phase == "begun":
                refused = _with(world, index, Process(waiting=process.waiting))
                label = f"{_name(index)} cannot reach the database and says so"
                yield label, self._abandoned(refused, process.batch)
            if process.phase not in {"idle", "begun"}:
                cut = _left(world, process)
                label = f"the connection of {_name(index)} is cut"
                yield label, _with(cut, index, _anew(process))
        for number, client in enumerate(world.clients):
            if client.mood == "waits":
                label = f"{_client(number)} stops waiting"
                yield label, self._abandoned(world, [Request(number, client.attempt)])

    def _abandoned(self, world: World, requests: Iterable[Request]) -> World:
        """Return the world in which those clients that still waited know nothing."""
        clients = world.clients
        for request in requests:
            client = clients[request.intent]
            if client.mood == "waits" and client.attempt == request.attempt:
                mood = "doubts" if self._intent(request).key is None else "wants"
                clients = _put(clients, request.intent, changed(client, mood=mood))
        return changed(world, clients=clients)

    def _intent(self, request: Request) -> Intent:
        return self.setting.intents[request.intent]


def _requests(world: World) -> Iterator[Request]:
    return (movement.request for movement in world.journal)


def _anew(process: Process) -> Process:
    """Return the process with its batch at its beginning, in doubt after a commit was sent."""
    return changed(
        process,
        phase="begun",
        work=Work(),
        told=(),
        glance=None,
        in_doubt=process.in_doubt or process.phase in {"committing", "committed"},
    )


def _locks(world: World) -> set[str]:
    held = (process.work.locked for process in world.processes if process.phase != "committed")
    return set(chain(*held, *(work.locked for work in world.orphans)))


def _left(world: World, process: Process) -> World:
    """Return the world after a connection ended: a commit that was sent may still take effect."""
    if process.phase != "committing":
        return world
    return changed(world, orphans=(*world.orphans, process.work))


def _committed(world: World, work: Work) -> World:
    heads = tuple((dict(world.heads) | dict(work.heads)).items())
    return changed(world, heads=heads, journal=world.journal + work.moved)


def _answered(world: World, told: Told) -> World:
    """Return the world in which those who still wait for these answers have them."""
    clients = world.clients
    for request, moved in told:
        client = clients[request.intent]
        if client.mood == "waits" and client.attempt == request.attempt:
            clients = _put(clients, request.intent, Client("told", client.attempt, moved))
    return changed(world, clients=clients)


def _with(world: World, index: int, process: Process) -> World:
    processes = world.processes
    return changed(world, processes=(*processes[:index], process, *processes[index + 1 :]))


def _put(clients: tuple[Client, ...], number: int, client: Client) -> tuple[Client, ...]:
    return (*clients[:number], client, *clients[number + 1 :])


def _client(number: int) -> str:
    return f"client {number + 1}"


def _name(index: int) -> str:
    return f"process {index + 1}"
