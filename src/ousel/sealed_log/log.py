"""The log of one server process: its key, its sealer and its reader."""

from ousel.database.port import Database
from ousel.kernel.settings import Settings
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log.keys import KeyHolder
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.sealer import Sealer
from ousel.sealed_log.service import LogReader


class SealedLog:
    """The parts of the log that endpoints, pages and background tasks share."""

    def __init__(self, settings: Settings, database: Database, queue: PostingQueue) -> None:
        """Create the parts, without reading anything yet."""
        self.key = KeyHolder(settings)
        self.notifier = LogNotifier(database)
        self.reader = LogReader(database, self.key, self.notifier)
        self.sealer = Sealer(database, self.key, queue, self.notifier)
