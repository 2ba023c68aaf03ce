"""The file with the keys that encrypt the secrets of second factors; it is not in the database."""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ousel.database.addresses import is_postgres, sqlite_path
from ousel.kernel.errors import Refusal
from ousel.kernel.files import write_durably
from ousel.kernel.settings import Settings

KEY_BYTES: Final = 32
KEYS_MAX: Final = 100
COMMENT: Final = (
    "# Ousel encrypts the secrets of second factors with these keys. Whoever has the database and\n"
    "# this file can compute people's codes. Back this file up, but not with the database.\n"
)


class SecretFileUnusable(Refusal):
    """The keys that encrypt the secrets of second factors are missing on this server."""

    status = 503
    code = "secret_file_unusable"
    title = "Authenticator apps do not work now, but recovery codes and passkeys do"
    cure = "The operator must set OUSEL_SECRET_FILE, or restore the file that it names."
    is_for_operator = True


class SecretFile:
    """The keys in a file, by their ids, oldest first.

    A key that was read once is kept in memory: a secret may have been read from the database
    shortly before a rotation removed its key from the file.
    """

    def __init__(self, path: Path | None, *, may_create: bool) -> None:
        """Use the file at this path. If `may_create`, create it when the first key is needed."""
        self._path = path
        self._may_create = may_create
        self._known: dict[str, bytes] = {}

    def find(self, key_id: str) -> bytes | None:
        """Return the key with this id, or None if the file does not have it."""
        if key_id not in self._known and self._path is not None and self._path.exists():
            self._read(self._path)
        return self._known.get(key_id)

    def get(self, key_id: str) -> bytes:
        """Return the key with this id, or refuse."""
        key = self.find(key_id)
        if key is None:
            file = (
                f"not in {self._path}" if self._path else "in a file that this server does not know"
            )
            raise SecretFileUnusable(
                f"The secrets of second factors are encrypted with the key {key_id}, which is"
                f" {file}: set OUSEL_SECRET_FILE, or restore the file from its backup."
            )
        return key

    def ids(self) -> list[str]:
        """Return the ids of the keys in the file, oldest first; there is at least one."""
        path = self._require_path()
        if not path.exists():
            if not self._may_create:
                raise SecretFileUnusable(
                    f"OUSEL_SECRET_FILE names {path}, which does not exist: create it with"
                    " 'ousel secret create', or restore it from its backup."
                )
            self.create()
        return list(self._read(path))

    def check(self) -> None:
        """Refuse a file that is set but cannot be used."""
        if self._path is not None and not self._may_create:
            self.ids()

    def create(self) -> str:
        """Create the file with one key, and return the path; an existing file stays as it is."""
        path = self._require_path()
        with suppress(FileExistsError):
            _write(path, [secrets.token_bytes(KEY_BYTES)], replaces=False)
        self._read(path)  # what exists may be a link to a missing file
        return str(path)

    def exists(self) -> bool:
        """Return whether there is a file already."""
        return self._require_path().exists()

    def add(self) -> str:
        """Add a key to the file, and return its id.

        If there are several keys, a rotation was prepared or interrupted: return the newest.
        """
        ids = self.ids()
        if len(ids) > 1:
            return ids[-1]
        key = secrets.token_bytes(KEY_BYTES)
        self._replace([self.get(ids[0]), key])
        return _id_of(key)

    def keep_only(self, key_id: str) -> None:
        """Remove all other keys from the file."""
        self._replace([self.get(key_id)])

    def _replace(self, keys: Iterable[bytes]) -> None:
        """Write the file anew."""
        path = self._require_path()
        _write(path, keys, replaces=True)
        self._read(path)

    def _read(self, path: Path) -> dict[str, bytes]:
        try:
            lines = path.read_text("ascii").splitlines()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SecretFileUnusable(f"{path} cannot be read: {reason}.") from error
        keys = [_parse_key(line, path) for line in lines if line.strip() and line[0] != "#"]
        if not 1 <= len(keys) <= KEYS_MAX:
            raise SecretFileUnusable(f"{path} must contain from 1 to {KEYS_MAX} keys.")
        found = {_id_of(key): key for key in keys}
        self._known |= found
        return found

    def _require_path(self) -> Path:
        if self._path is None:
            raise SecretFileUnusable(
                "OUSEL_SECRET_FILE must be set, because the secrets of second factors are encrypted"
                " with a key in this file: create one with 'ousel secret create'."
            )
        return self._path


def secret_file_of(settings: Settings) -> SecretFile:
    """Return the file that the settings name, or one that Ousel creates beside an SQLite file."""
    if settings.secret_file is not None:
        return SecretFile(settings.secret_file.absolute(), may_create=False)
    if is_postgres(settings.database_url):
        return SecretFile(None, may_create=False)
    database = sqlite_path(settings.database_url).resolve()
    return SecretFile(database.with_name(f"{database.name}.secret"), may_create=True)


def _id_of(key: bytes) -> str:
    """Return a name for a key that does not reveal it."""
    return hashlib.sha256(b"id of " + key).hexdigest()[:12]


def _parse_key(line: str, path: Path) -> bytes:
    try:
        key = base64.b64decode(line.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise SecretFileUnusable(
            f"Each line of {path} must be {KEY_BYTES} bytes in base64, as 'openssl rand -base64"
            f" {KEY_BYTES}' prints them."
        )
    return key


def _write(path: Path, keys: Iterable[bytes], *, replaces: bool) -> None:
    lines = "".join(f"{base64.b64encode(key).decode()}\n" for key in keys)
    content = (COMMENT + lines).encode()
    try:
        write_durably(path, content, for_owner_only=True, replaces=replaces)
    except FileExistsError:
        raise
    except OSError as error:  # within a transaction, it would look like a lost connection
        raise SecretFileUnusable(f"{path} cannot be written: {error.strerror}.") from error
