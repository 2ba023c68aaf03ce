"""Asking witnesses to cosign the log, in the background: one that is down delays nothing."""

import secrets
from time import monotonic
from typing import Final

from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.logs import EventLogger
from ousel.sealed_log import store
from ousel.sealed_log.checkpoints import unverified_checkpoint
from ousel.sealed_log.cosignatures import Cosignature
from ousel.sealed_log.remote import RemoteUnreachable
from ousel.sealed_log.service import LogReader
from ousel.sealed_log.witness_client import WitnessAddress, WitnessClient, WitnessRefused

OFFER_SECONDS: Final = 1.0  # between two polls for a new checkpoint
CLAIM_SECONDS: Final = 60  # longer than all requests for one checkpoint usually take
PAUSE_SECONDS_MAX: Final = 60.0  # between two requests to a witness that does not cosign

_log = EventLogger()


class Cosigning:
    """Offers the newest checkpoint to one witness, and stores its cosignature.

    Each process has a `Cosigning` for each witness. Only the process that has claimed a witness
    asks it. When the claim has ended, another process can claim the witness.
    """

    def __init__(
        self, database: Database, clock: Clock, reader: LogReader, address: WitnessAddress
    ) -> None:
        """Ask the witness at this address."""
        self._database = database
        self._clock = clock
        self._reader = reader
        self._client = WitnessClient(address)
        self._witness = str(address.key)
        self._process = secrets.token_hex(8)
        self._last_cosigned: str | None = None
        self._pause_seconds = 0.0
        self._next_attempt = 0.0

    async def offer_due(self) -> None:
        """Offer the newest checkpoint, unless the witness has cosigned it or needs a pause."""
        if monotonic() < self._next_attempt:
            return
        checkpoint = await self._reader.newest_checkpoint()
        if checkpoint is None or checkpoint == self._last_cosigned or not await self._claim():
            return
        try:
            line = await self._client.cosign(checkpoint, self._reader.consistency_proof)
        except (WitnessRefused, RemoteUnreachable) as error:
            self._pause_seconds = min(max(self._pause_seconds * 2, 1.0), PAUSE_SECONDS_MAX)
            self._next_attempt = monotonic() + self._pause_seconds
            name = self._client.address.key.name
            _log.warning("a witness does not cosign", witness=name, reason=str(error))
            return
        size = unverified_checkpoint(checkpoint).size
        cosignature = Cosignature(self._witness, size, checkpoint, line)
        await self._database.write(lambda each: store.write_cosignature(each, cosignature))
        self._last_cosigned, self._pause_seconds = checkpoint, 0.0

    async def _claim(self) -> bool:
        now = self._clock()
        until = now + CLAIM_SECONDS * MICROS_PER_SECOND
        return await self._database.write(
            lambda each: store.claim_witness(each, self._witness, self._process, now, until)
        )
