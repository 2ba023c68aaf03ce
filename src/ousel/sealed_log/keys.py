"""The key of the log: the file that holds it, and what it signs.

The first line of the file is the private key, in the form that Go's note package uses. After it
come the notes by which earlier keys have named their successors, if the key was ever replaced.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from ousel.database.addresses import is_postgres, sqlite_path
from ousel.database.port import Database, Transaction
from ousel.kernel.files import reason_of, write_durably
from ousel.kernel.settings import SettingError, Settings
from ousel.sealed_log import store
from ousel.sealed_log.checkpoints import Checkpoint, open_checkpoint
from ousel.sealed_log.notes import (
    ED25519,
    NoteRefused,
    OpenedNote,
    SigningKey,
    VerifierKey,
    from_base64,
    new_signing_key,
    open_note,
    parse_verifier_key,
    sign_note,
    to_base64,
)

SUCCESSION_FORMAT: Final = "ousel-log-key/v1"

_RESTORED: Final = "restored from a backup after "
_SEPARATOR: Final = "\n\n\n"  # between the key and the notes; no note contains it


class LogKeyUnusable(SettingError):
    """The file of the key cannot be read or written, or its content is wrong."""


class KeyExists(LogKeyUnusable):
    """The file of a new key exists already."""


class AnotherKeySigned(LogKeyUnusable):
    """Neither this key nor a former one has signed the log."""


def origin_at(portal_url: str) -> str:
    """Return the name of the log of a portal: its address without the scheme, and `/log`."""
    parts = urlsplit(portal_url)
    return f"{parts.netloc}{parts.path}/log"


class LogKey:
    """A key that signs the checkpoints and receipts of a log."""

    def __init__(self, signing_key: SigningKey, successions: tuple[str, ...] = ()) -> None:
        """Sign with this key; `successions` are the notes by which earlier keys named the next."""
        self.signing_key = signing_key
        self.successions = successions
        self._accepted = {self.verifier.public, *(_former_key(each).public for each in successions)}
        # The last one that is known to be signed with this key.
        self._last_checkpoint: str | None = None

    @property
    def origin(self) -> str:
        """The name of the log."""
        return self.verifier.name

    @property
    def verifier(self) -> VerifierKey:
        """The public key."""
        return self.signing_key.verifier

    @property
    def verifiers(self) -> list[VerifierKey]:
        """The public key, and those of all former keys."""
        return [self.verifier, *map(_former_key, reversed(self.successions))]

    def sign_checkpoint(self, size: int, root: bytes) -> str:
        """Return the signed checkpoint of a log with this size and root."""
        text = Checkpoint(self.origin, size, root).text
        self._last_checkpoint = sign_note(text, [self.signing_key])
        return self._last_checkpoint

    def needs_new_checkpoint(self, checkpoint: str | None) -> bool:
        """Return whether the log needs a new checkpoint, because this key has not signed the last.

        Refuse to continue a log that neither this key nor a former one has signed.
        """
        if checkpoint is None or checkpoint == self._last_checkpoint:
            return checkpoint is None
        if not self.check_signer(checkpoint).is_signed_by(self.verifier):
            return True
        self._last_checkpoint = checkpoint
        return False

    def check_signer(self, checkpoint: str) -> OpenedNote:
        """Return the opened note; refuse it if neither this key nor a former one has signed it."""
        try:
            return _open_signed_by(self._accepted, checkpoint)[1]
        except NoteRefused:
            raise AnotherKeySigned("another key has signed the log of this database") from None

    def has_signed(self, checkpoint: str | None) -> bool:
        """Return whether this key, under its present name, has signed this checkpoint."""
        try:
            return not self.needs_new_checkpoint(checkpoint)
        except AnotherKeySigned:
            return False

    def declares_lost(self, checkpoint: str) -> bool:
        """Return whether a former key has declared that a restore has lost this checkpoint.

        The declaration covers what was signed before it, up to the size that it names.
        """
        signers: set[bytes] = set()
        for succession in self.successions:
            signers.add(_former_key(succession).public)
            with suppress(NoteRefused):
                if _open_signed_by(signers, checkpoint)[0].size <= _size_lost(succession):
                    return True
        return False

    def create_successor(self, lost: Checkpoint | None = None) -> "LogKey":
        """Return a new key, with a note in which this key names it as its successor.

        The note also names the lost checkpoint, which was published and is not in the log any more.
        """
        new = new_signing_key(self.origin)
        text = f"{SUCCESSION_FORMAT}\n{self.verifier}\n{new.verifier}\n"
        if lost is not None:
            text += f"{_RESTORED}{lost.size} {to_base64(lost.root)}\n"
        return LogKey(new, (*self.successions, sign_note(text, [self.signing_key])))


def new_key(origin: str) -> LogKey:
    """Return a key that was drawn at random."""
    return LogKey(new_signing_key(origin))


def read_key(path: Path, origin: str) -> LogKey | None:
    """Return the key in this file, under the name of this log; None if there is no such file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if path.is_symlink():
            raise LogKeyUnusable(f"the log key {path} is a link to a missing file") from None
        return None
    except (OSError, ValueError) as error:
        raise LogKeyUnusable(f"the log key {path} cannot be read: {reason_of(error)}") from None
    private, *notes = text.strip().split(_SEPARATOR)
    try:
        # The file also has the name that the log had when the key was made; it is not used.
        *_, material = private.split("+", 4)
        seed = from_base64(material)[1:]
        return LogKey(SigningKey(origin, seed), tuple(f"{each}\n" for each in notes))
    except (NoteRefused, ValueError):
        raise LogKeyUnusable(f"{path} does not hold a log key") from None


def _former_key(succession: str) -> VerifierKey:
    """Return the key that signed this note, in which it names its successor."""
    former = parse_verifier_key(succession.split("\n")[1])
    open_note(succession, [former])
    return former


def _size_lost(succession: str) -> int:
    """Return the size of the checkpoint that this note declares lost; 0 if it declares none."""
    line = succession.split("\n")[3]
    return int(line.removeprefix(_RESTORED).split(" ")[0]) if line.startswith(_RESTORED) else 0


def _open_signed_by(public_keys: Iterable[bytes], note: str) -> tuple[Checkpoint, OpenedNote]:
    """Return the checkpoint if one of these keys has signed it, under any name of the log."""
    origin = note.partition("\n")[0]
    return open_checkpoint(note, [VerifierKey(origin, ED25519, each) for each in public_keys])


def write_key(path: Path, key: LogKey, *, replaces: bool = False) -> None:
    """Write the key to a file: only its owner can read a new file.

    If the file exists, raise KeyExists, unless the key replaces the one in it. Then those who could
    read the file still can, except others than its owner and group.
    """
    parts = [key.signing_key.private_text, *key.successions]
    content = _SEPARATOR.join([part.rstrip("\n") for part in parts])
    try:
        write_durably(path, f"{content}\n".encode(), for_owner_only=True, replaces=replaces)
    except FileExistsError:
        raise KeyExists(f"there is a log key at {path} already") from None
    except OSError as error:
        raise LogKeyUnusable(f"the log key {path} cannot be written: {error.strerror}") from None


class KeyHolder:
    """Holds the key of a running server, once it is read, and what the server saw of its log."""

    def __init__(self, settings: Settings) -> None:
        """Use the key of this installation: in the named file, or in one beside an SQLite file."""
        self.origin = origin_at(settings.portal_url)
        self.path = settings.log_key_file
        self._may_create = False
        if self.path is None and not is_postgres(settings.database_url):
            database = sqlite_path(settings.database_url)
            self.path = database.with_name(f"{database.name}.log-key")
            self._may_create = True
        self.checkpoint_path = settings.log_checkpoint_file
        if self.path is not None and self.checkpoint_path is None:
            self.checkpoint_path = self.path.with_name(f"{self.path.name}.checkpoint")
        self.key: LogKey | None = None
        # The sealer and the checkpoint recorder share what they have seen of the log.
        self.may_continue_log = True  # False while the log contradicts what was published
        self.size_seen = 0  # the largest size of the log that this process has seen

    async def read(self, database: Database, *, creates: bool = True) -> None:
        """Read the key, or create the first one beside an SQLite file; without a path, do nothing.

        With `creates=False`, read the key if there is one, but create none.
        """
        if self.path is None:
            return
        await database.read(self.read_existing)
        if self.key is None and not self._may_create:
            raise LogKeyUnusable(
                f"there is no log key at {self.path}: run 'ousel log key new' to create it"
            )
        if self.key is None and creates:
            with suppress(KeyExists):  # another process has created it just now
                write_key(self.path, new_key(self.origin))
            self.key = read_key(self.path, self.origin)

    async def read_existing(self, transaction: Transaction) -> None:
        """Read the key if there is a file; refuse if the log is signed with a key not in it."""
        assert self.path is not None
        # The log is read before the file. A process creates the file before it signs: if there is a
        # checkpoint, there is a file.
        checkpoint = (await store.read_head(transaction)).checkpoint
        self.key = read_key(self.path, self.origin)
        if checkpoint is None:
            return
        with suppress(AnotherKeySigned):
            if self.key is not None:
                self.key.check_signer(checkpoint)
                return
        raise AnotherKeySigned(
            f"the log of this database is signed with a key that is not in {self.path}: put the"
            " file of that key there. If it is lost for good, see 'ousel log key new --lost'"
        )

    async def is_signer_missing(self, transaction: Transaction) -> bool:
        """Return whether the log is signed with a key that is not in the file."""
        try:
            await self.read_existing(transaction)
        except AnotherKeySigned:
            return True
        return False


async def forget_signer(transaction: Transaction) -> None:
    """Let any key sign the log next, as if it had never been signed."""
    head = await store.lock_head(transaction)
    if head is None:
        raise LogKeyUnusable("a server is sealing now: stop all servers first")
    await store.write_head(transaction, head, replace(head, checkpoint=None))


def known_key(settings: Settings) -> LogKey | None:
    """Return the key of this installation, or None if it has none here; create nothing.

    If the settings name a file that does not exist, raise LogKeyUnusable.
    """
    holder = KeyHolder(settings)
    key = None if holder.path is None else read_key(holder.path, holder.origin)
    if key is None and settings.log_key_file is not None:
        raise LogKeyUnusable(f"there is no log key at {settings.log_key_file}")
    return key
