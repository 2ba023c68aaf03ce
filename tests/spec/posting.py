"""A model of posting: every step that processes, clients and faults can take from a state.

The steps are those of `ousel.ledger.queue` and `ousel.ledger.batch`. The real rules decide what a
batch moves.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from tests.spec.decisions import Decisions
from tests.spec.world import (
    AccountState,
    Answers,
    Client,
    FirstLook,
    Intent,
    Journal,
    PendingWrites,
    Process,
    Request,
    Scenario,
    World,
)

Step = tuple[str, World]

replace = msgspec.structs.replace


class PostingModel:
    """The steps of posting in one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._decisions = Decisions(scenario)

    def steps(self, world: World) -> Iterator[Step]:
        """Yield each step that can happen next, with its name."""
        yield from self._client_steps(world)
        for index, process in enumerate(world.processes):
            yield from self._process_steps(world, index, process)
        yield from self._abandoned_commits(world)
        if world.faults_left:
            yield from self._fault_steps(replace(world, faults_left=world.faults_left - 1))

    def _client_steps(self, world: World) -> Iterator[Step]:
        for number, client in enumerate(world.clients):
            if client.status != "wants":
                continue
            asking = Client("waits", client.attempt + 1)
            request = Request(number, asking.attempt)
            for index, process in enumerate(world.processes):
                joined = replace(process, waiting=(*process.waiting, request))
                asked = replace(world, clients=_with_client(world.clients, number, asking))
                yield (
                    f"{_client_name(number)} asks {_process_name(index)}",
                    _with_process(asked, index, joined),
                )

    def _process_steps(self, world: World, index: int, process: Process) -> Iterator[Step]:
        match process.phase:
            case "idle":
                yield from self._begin_steps(world, index, process)
            case "begun":
                yield from self._lock_steps(world, index, process)
            case "written":
                label = f"{_process_name(index)} sends its commit"
                following = _with_process(world, index, replace(process, phase="committing"))
                if not self.scenario.design.commits_before_answering:
                    label += " and answers"
                    following = _answered(following, process.answers)
                yield label, following
            case "committing":
                committed = _committed(world, process.pending)
                label = f"the commit of {_process_name(index)} takes effect"
                yield label, _with_process(committed, index, replace(process, phase="committed"))
            case "committed":
                yield from self._answer_steps(world, index, process)

    def _begin_steps(self, world: World, index: int, process: Process) -> Iterator[Step]:
        """Take the waiting requests, or those that were set aside for one account."""
        name = _process_name(index)
        if process.waiting:
            first_look = self._first_look(world, process.waiting)
            begun = Process(
                "begun", batch=process.waiting, first_look=first_look, aside=process.aside
            )
            label = f"{name} takes the waiting requests and begins to lock"
            yield label, _with_process(world, index, begun)
        for account in dict.fromkeys(account for _, account in process.aside):
            batch = tuple(request for request, awaited in process.aside if awaited == account)
            begun = replace(
                process,
                phase="begun",
                batch=batch,
                first_look=self._first_look(world, batch),
                aside=tuple(each for each in process.aside if each[1] != account),
                awaited=account,
            )
            label = f"{name} takes the requests that need {account} and begins to wait for it"
            yield label, _with_process(world, index, begun)

    def _first_look(self, world: World, batch: tuple[Request, ...]) -> FirstLook:
        """Return what the statement that locks sees at its start."""
        wanted = {(intent.debit, intent.key) for intent in map(self._intent, batch) if intent.key}
        used = {(intent.debit, intent.key) for intent in map(self._intent, _requests(world))}
        debited = {self._intent(request).debit for request in batch}
        sequences = tuple(
            (name, account.sequence) for name, account in world.accounts if name in debited
        )
        return FirstLook(not wanted.isdisjoint(used), sequences)

    def _known_movements(self, world: World, first_look: FirstLook) -> Journal:
        """Return the movements whose keys the process knows after it got its locks."""
        accounts = dict(world.accounts)
        overtaken = any(accounts[name].sequence != before for name, before in first_look.sequences)
        if overtaken and self.scenario.design.reads_keys_again_if_overtaken:
            return world.journal
        return world.journal if first_look.keys_used else ()

    def _lock_steps(self, world: World, index: int, process: Process) -> Iterator[Step]:
        """Lock the accounts that are free, or the next one; then read, decide and write."""
        if process.first_look is None:
            again = replace(process, first_look=self._first_look(world, process.batch))
            yield f"{_process_name(index)} begins to lock again", _with_process(world, index, again)
            return
        wanted = self._accounts_to_lock(process.batch)
        if not self.scenario.design.locks_at_all:
            yield (
                f"{_process_name(index)} reads and writes",
                self._written(world, index, process, ()),
            )
            return
        if not (process.in_doubt and self.scenario.design.waits_for_all_rows_in_doubt):
            yield from self._lock_free_accounts(world, index, process)
            return
        account = wanted[len(process.pending.locked)]
        if account in _locks(world):
            return
        locked = (*process.pending.locked, account)
        label = f"{_process_name(index)} locks {account}"
        if len(locked) == len(wanted):
            yield f"{label}, reads and writes", self._written(world, index, process, locked)
        else:
            yield (
                label,
                _with_process(world, index, replace(process, pending=PendingWrites(locked=locked))),
            )

    def _lock_free_accounts(self, world: World, index: int, process: Process) -> Iterator[Step]:
        """Set aside the requests that need an account which another transaction has locked."""
        taken = _locks(world)
        if process.awaited in taken:
            return
        aside, batch = list(process.aside), []
        for request in process.batch:
            blocked = [each for each in self._accounts_to_lock([request]) if each in taken]
            if blocked:
                aside.append((request, blocked[0]))
            else:
                batch.append(request)
        name = _process_name(index)
        aside.sort()
        if not batch:
            idle = Process(waiting=process.waiting, aside=tuple(aside))
            yield f"{name} finds accounts locked", _with_process(world, index, idle)
            return
        locked = tuple(each for each in self._accounts_to_lock(process.batch) if each not in taken)
        unblocked = replace(process, batch=tuple(batch), aside=tuple(aside))
        yield (
            f"{name} locks {' and '.join(locked)}, reads and writes",
            self._written(world, index, unblocked, locked),
        )

    def _accounts_to_lock(self, batch: Iterable[Request]) -> list[str]:
        intents = [self.scenario.intents[request.intent] for request in batch]
        touched = list(dict.fromkeys(chain(*((each.debit, each.credit) for each in intents))))
        return sorted(touched) if self.scenario.design.locks_in_one_order else touched

    def _written(
        self, world: World, index: int, process: Process, locked: tuple[str, ...]
    ) -> World:
        written_before = self._written_before(world, process)
        undecided = tuple(request for request in process.batch if request not in written_before)
        assert process.first_look is not None
        keys = self._known_movements(world, process.first_look)
        answers, pending = self._decisions.decide(undecided, world.accounts, keys)
        touched = self._accounts_to_lock(process.batch)
        found = {name: account.sequence for name, account in world.accounts if name in touched}
        written = replace(
            process,
            phase="written",
            pending=replace(pending, locked=locked),
            answers=answers + tuple((request, request) for request in written_before),
            sequences=self._sequences_to_look_behind(process, found),
        )
        return _with_process(world, index, written)

    def _sequences_to_look_behind(
        self, process: Process, found: dict[str, int]
    ) -> tuple[tuple[str, int], ...]:
        before = dict(process.sequences)
        if self.scenario.design.looks_behind_lowest_sequence:
            lowest = {name: min(number, before.get(name, number)) for name, number in found.items()}
            return tuple(sorted(lowest.items()))
        return tuple(sorted((found | before).items()))

    def _written_before(self, world: World, process: Process) -> list[Request]:
        """Return the requests whose movements were written by an earlier attempt."""
        if not (process.in_doubt and self.scenario.design.looks_after_unknown_commit):
            return []
        touched = self._accounts_to_lock(process.batch)
        found = {name: account.sequence for name, account in world.accounts if name in touched}
        since = dict(self._sequences_to_look_behind(process, found))
        return [
            movement.request
            for movement in world.journal
            if movement.request in process.batch
            and movement.debit_sequence > since[self._intent(movement.request).debit]
        ]

    def _answer_steps(self, world: World, index: int, process: Process) -> Iterator[Step]:
        idle = _with_process(world, index, Process(waiting=process.waiting, aside=process.aside))
        yield f"{_process_name(index)} answers", _answered(idle, process.answers)
        if world.faults_left:
            with_fault = replace(idle, faults_left=world.faults_left - 1)
            for lost, _ in process.answers:
                kept = tuple(each for each in process.answers if each[0] != lost)
                label = (
                    f"{_process_name(index)} answers; {_client_name(lost.intent)}'s answer is lost"
                )
                yield label, self._unanswered(_answered(with_fault, kept), [lost])

    def _abandoned_commits(self, world: World) -> Iterator[Step]:
        for number, pending in enumerate(world.abandoned_commits):
            left = replace(
                world,
                abandoned_commits=world.abandoned_commits[:number]
                + world.abandoned_commits[number + 1 :],
            )
            yield "an abandoned commit takes effect", _committed(left, pending)
            yield "an abandoned commit is rolled back", left

    def _fault_steps(self, world: World) -> Iterator[Step]:
        for index, process in enumerate(world.processes):
            if process != Process():
                aside = tuple(request for request, _ in process.aside)
                killed = self._unanswered(
                    _disconnected(world, process), process.waiting + process.batch + aside
                )
                yield f"{_process_name(index)} is killed", _with_process(killed, index, Process())
            if process.phase == "begun":
                refused = _with_process(
                    world, index, Process(waiting=process.waiting, aside=process.aside)
                )
                label = f"{_process_name(index)} cannot reach the database and answers so"
                yield label, self._unanswered(refused, process.batch)
            if process.phase not in {"idle", "begun"}:
                cut = _disconnected(world, process)
                label = f"the connection of {_process_name(index)} is cut"
                yield label, _with_process(cut, index, _restarted(process))
        if self.scenario.loses_history:
            yield from self._lost_histories(world)
        for number, client in enumerate(world.clients):
            if client.status == "waits":
                label = f"{_client_name(number)} stops waiting"
                yield label, self._unanswered(world, [Request(number, client.attempt)])

    def _lost_histories(self, world: World) -> Iterator[Step]:
        """Switch to a replica that lacks the last movements, none of which a client was told of."""
        told = {client.answer for client in world.clients}
        accounts = dict(world.accounts)
        for lost in range(1, len(world.journal) + 1):
            movement = world.journal[-lost]
            if movement.request in told:
                return
            intent = self._intent(movement.request)
            for name, amount in ((intent.debit, intent.amount), (intent.credit, -intent.amount)):
                state = accounts[name]
                accounts[name] = AccountState(state.balance + amount, state.sequence - 1)
            processes = tuple(
                each if each.phase == "idle" else _restarted(each) for each in world.processes
            )
            yield (
                f"the last {lost} movements are lost at a switch",
                replace(
                    world,
                    accounts=tuple(accounts.items()),
                    journal=world.journal[:-lost],
                    processes=processes,
                    abandoned_commits=(),
                ),
            )

    def _unanswered(self, world: World, requests: Iterable[Request]) -> World:
        """Return the world in which the clients of these requests wait no more, unanswered."""
        clients = world.clients
        for request in requests:
            client = clients[request.intent]
            if client.status == "waits" and client.attempt == request.attempt:
                status = "in_doubt" if self._intent(request).key is None else "wants"
                clients = _with_client(clients, request.intent, replace(client, status=status))
        return replace(world, clients=clients)

    def _intent(self, request: Request) -> Intent:
        return self.scenario.intents[request.intent]


def _requests(world: World) -> Iterator[Request]:
    return (movement.request for movement in world.journal)


def _restarted(process: Process) -> Process:
    """Return the process about to repeat its batch, in doubt if a commit was sent."""
    return replace(
        process,
        phase="begun",
        pending=PendingWrites(),
        answers=(),
        first_look=None,
        in_doubt=process.in_doubt or process.phase in {"committing", "committed"},
    )


def _locks(world: World) -> set[str]:
    held = (process.pending.locked for process in world.processes if process.phase != "committed")
    return set(chain(*held, *(pending.locked for pending in world.abandoned_commits)))


def _disconnected(world: World, process: Process) -> World:
    """Return the world after the connection ended; a sent commit may still take effect."""
    if process.phase != "committing":
        return world
    return replace(world, abandoned_commits=(*world.abandoned_commits, process.pending))


def _committed(world: World, pending: PendingWrites) -> World:
    accounts = tuple((dict(world.accounts) | dict(pending.accounts)).items())
    return replace(world, accounts=accounts, journal=world.journal + pending.movements)


def _answered(world: World, answers: Answers) -> World:
    """Return the world in which the clients that still wait have got these answers."""
    clients = world.clients
    for request, moved_by in answers:
        client = clients[request.intent]
        if client.status == "waits" and client.attempt == request.attempt:
            clients = _with_client(
                clients, request.intent, Client("answered", client.attempt, moved_by)
            )
    return replace(world, clients=clients)


def _with_process(world: World, index: int, process: Process) -> World:
    processes = world.processes
    return replace(world, processes=(*processes[:index], process, *processes[index + 1 :]))


def _with_client(clients: tuple[Client, ...], number: int, client: Client) -> tuple[Client, ...]:
    return (*clients[:number], client, *clients[number + 1 :])


def _client_name(number: int) -> str:
    return f"client {number + 1}"


def _process_name(index: int) -> str:
    return f"process {index + 1}"
