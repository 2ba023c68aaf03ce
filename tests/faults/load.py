"""A load of transfers that records every key and answer, and retries until each is acknowledged."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import msgspec

from ousel.database.addresses import open_database
from tests.faults.sizes import sized
from tests.support.accounts import verify
from tests.support.seeded import SeededDatabase
from tests.support.waiting import until

WORKERS = sized(8, 16)
ANSWER_SECONDS_MAX = 240.0
BETWEEN_SECONDS = sized(0.05, 0.0)  # from the answer of a transfer to the next one
PAUSE_SECONDS = sized(0.1, 0.03)  # before a transfer is sent again
SETTLE_SECONDS_MAX = 240.0

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(msgspec.Struct, frozen=True):
    """The parts of an answer that the load reads."""

    status: int
    head: bytes
    body: dict[str, Any]


class Load:
    """Workers that send one transfer after another, each with its own idempotency key."""

    def __init__(
        self,
        seeded: SeededDatabase,
        *ports: int,
        patient: bool = True,
        between_seconds: float = BETWEEN_SECONDS,
    ) -> None:
        """Send to these ports; unless patient, a worker stops at the first lost answer."""
        self.seeded = seeded
        self.ports = itertools.cycle(ports)  # the workers take them in turn
        self.patient = patient
        self._between_seconds = between_seconds
        self.acknowledged: dict[int, str] = {}  # transfer ids by number
        self.unanswered: list[int] = []
        self.lost = 0  # attempts without an answer
        self.replayed = 0  # transfers that had moved, although their answer was lost
        self.anew = 0  # transfers that had not moved, and whose answer was lost
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.longest_seconds = 0.0
        self._numbers = itertools.count(1)
        self._stopping = False

    @asynccontextmanager
    async def running(
        self, count: int | None = None, workers: int = WORKERS
    ) -> AsyncIterator[None]:
        """Send during a block, or a number of transfers; in the end each has been answered."""
        self._stopping = False
        numbers = itertools.islice(self._numbers, count)
        tasks = [asyncio.create_task(self._work(numbers)) for _ in range(workers)]
        try:
            yield
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        self._stopping = count is None
        async with asyncio.timeout(SETTLE_SECONDS_MAX if count is None else None):
            await asyncio.gather(*tasks)

    async def settle(self) -> None:
        """Send every transfer again that got no answer."""
        left, self.unanswered, self.patient = self.unanswered, [], True
        numbers = iter(left)
        await asyncio.gather(*(self._work(numbers, in_doubt=True) for _ in range(WORKERS)))

    async def progress(self) -> None:
        """Wait for the next acknowledgement of a transfer."""
        before = len(self.acknowledged)
        await until(lambda: len(self.acknowledged) > before or self.wrong)

    def key(self, number: int) -> str:
        """Return a transfer's idempotency key."""
        return f"load-{number:06d}"

    def amount(self, number: int) -> int:
        """Return a transfer's amount in millionths."""
        return 1 + number * 7_919 % 1_000_000

    async def _work(self, numbers: Iterator[int], *, in_doubt: bool = False) -> None:
        connection = _Connection(self)
        try:
            while not self._stopping and (number := next(numbers, None)) is not None:
                if not await self._settled(connection, number, in_doubt=in_doubt):
                    self.unanswered.append(number)
                    return
                await asyncio.sleep(self._between_seconds)
        finally:
            connection.close()

    async def _settled(self, connection: "_Connection", number: int, *, in_doubt: bool) -> bool:
        begun = asyncio.get_running_loop().time()
        while not self.wrong:
            answer = await connection.exchanged(self._request(number))
            if answer is None:
                self.lost += 1
                in_doubt = True
                if not self.patient:
                    return False
            elif answer.status in {200, 201}:
                self._acknowledge(number, answer, in_doubt=in_doubt)
                seconds = asyncio.get_running_loop().time() - begun
                self.longest_seconds = max(self.longest_seconds, seconds)
                return True
            else:
                self._note(number, answer)
                in_doubt = in_doubt or answer.body["code"] == "outcome_unknown"
            await asyncio.sleep(PAUSE_SECONDS)
        return False

    def _acknowledge(self, number: int, answer: Answer, *, in_doubt: bool) -> None:
        transfer = answer.body
        sent = (self.key(number), Decimal(self.amount(number)).scaleb(-6))
        returned = (transfer["idempotency_key"], Decimal(str(transfer["amount"])))
        if sent != returned:
            self.wrong.append(f"{sent} was sent, {returned} came back")
        replayed = answer.status == 200
        if replayed and not in_doubt:
            self.wrong.append(f"{sent} moved before, although its sender had no such answer")
        self.replayed += replayed
        self.anew += in_doubt and not replayed
        self.acknowledged[number] = transfer["id"]

    def _note(self, number: int, answer: Answer) -> None:
        self.refused[answer.body["code"]] += 1
        if answer.status != 503 or b"\r\nretry-after: " not in answer.head.lower():
            self.wrong.append(f"{self.key(number)}: {answer.head!r} {answer.body}")

    def _request(self, number: int) -> bytes:
        to = self.seeded.people[number % len(self.seeded.people)]
        whole, fraction = divmod(self.amount(number), 1_000_000)
        body = f'{{"to":"@{to}","amount":{whole}.{fraction:06d}}}'
        head = (
            "POST /v1/transfers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self.seeded.key}\r\nIdempotency-Key: {self.key(number)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return f"{head}{body}".encode()


class _Connection:
    """A connection that reconnects when needed."""

    def __init__(self, load: Load) -> None:
        self._port = next(load.ports)
        self._wire: Wire | None = None

    async def exchanged(self, request: bytes) -> Answer | None:
        """Return the answer, or None if none came."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                if self._wire is None:
                    self._wire = await asyncio.open_connection("127.0.0.1", self._port)
                return await _exchanged(request, *self._wire)
        except (OSError, EOFError):
            self.close()
            return None

    def close(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._wire[1].transport.abort()
            self._wire = None


async def _exchanged(
    request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Answer:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    body = await reader.readexactly(int(length))
    return Answer(int(head.split(b" ", 2)[1]), head, msgspec.json.decode(body))


async def assert_settled_exactly_once(load: Load) -> None:
    """Check that the ledger has each acknowledged transfer once, nothing else, and verifies."""
    assert not load.wrong, load.wrong[:3]
    assert not load.unanswered, load.unanswered
    expected = [
        (load.key(number), transfer_id, load.amount(number))
        for number, transfer_id in sorted(load.acknowledged.items())
    ]
    stored = await load.seeded.transfers()
    assert [(each.idempotency_key, each.id, each.amount) for each in stored] == expected
    async with open_database(load.seeded.url) as database:
        await verify(database)
