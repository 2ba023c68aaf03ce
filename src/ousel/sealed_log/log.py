"""The log of one server process: its key, and what seals, reads and records it."""

from ousel.database.port import Database
from ousel.kernel.clock import Clock
from ousel.kernel.settings import SettingError, Settings
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log.backfill import BackfillSearch
from ousel.sealed_log.cosigning import Cosigning
from ousel.sealed_log.keys import KeyHolder
from ousel.sealed_log.notes import NoteRefused
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.published import CheckpointRecorder
from ousel.sealed_log.sealer import Sealer
from ousel.sealed_log.service import LogReader
from ousel.sealed_log.witness_client import WitnessAddress, parse_witnesses


class SealedLog:
    """The parts of the log that endpoints, pages and background tasks share."""

    def __init__(
        self, settings: Settings, database: Database, queue: PostingQueue, clock: Clock
    ) -> None:
        """Create the parts, without reading anything yet."""
        witnesses = witnesses_of(settings)
        self.witness_keys = [each.key for each in witnesses]
        self.key_holder = KeyHolder(settings)
        self.notifier = LogNotifier(database)
        self.reader = LogReader(database, self.key_holder, self.notifier, self.witness_keys)
        self.checkpoint_recorder = CheckpointRecorder(database, self.key_holder)
        self.sealer = Sealer(database, self.key_holder, queue, self.notifier)
        self.backfill_search = BackfillSearch(database)
        self.cosignings = [Cosigning(database, clock, self.reader, each) for each in witnesses]


def witnesses_of(settings: Settings) -> list[WitnessAddress]:
    """Return the witnesses that the settings name, or raise SettingError."""
    try:
        return parse_witnesses(settings.witnesses or "")
    except NoteRefused as error:
        raise SettingError(
            f"OUSEL_WITNESSES must be a list such as VKEY https://…, VKEY https://…: {error}."
        ) from None
