"""The secrets of second factors: encrypted in the database with a key from the secret file.

The database records the id of the key that encrypts new secrets. A transaction that encrypts a
secret locks this record until it commits. So when a rotation has changed it, nobody encrypts with
the old key any more.
"""

import base64
import binascii
import contextlib
import os
from typing import Final

import msgspec

from ousel.database import deployment
from ousel.database.port import Database, Transaction
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.kernel.logs import EventLogger
from ousel.people import factor_store
from ousel.people.secret_file import SecretFile

NONCE_BYTES: Final = 12
BATCH_ROWS: Final = 200

_log = EventLogger()


class Rotation(msgspec.Struct, frozen=True):
    """The key that now encrypts all secrets, and how many secrets there were."""

    key_id: str
    encrypted: int
    unreadable: int  # they were encrypted with a key that is lost


class FactorSecrets:
    """Encrypts and decrypts the secrets of second factors, and replaces the key."""

    def __init__(self, database: Database, file: SecretFile) -> None:
        """Use the keys of this file."""
        self._database = database
        self._file = file

    async def encrypt(self, transaction: Transaction, account_id: str, secret: str) -> str:
        """Return what to store for a secret, in the transaction that stores it."""
        return self._encrypt(await self._lock_key(transaction), account_id, secret)

    def decrypt(self, account_id: str, stored: str) -> str | None:
        """Return the secret, or None if its key is lost or it belongs to another account."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_id, is_encrypted, text = stored.partition(".")
        if not is_encrypted:
            return stored  # a server of an older version that still runs has written it
        key = self._file.find(key_id)
        if key is not None:
            with contextlib.suppress(InvalidTag, binascii.Error):
                sealed = base64.b64decode(text)
                nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
                return AESGCM(key).decrypt(nonce, ciphertext, _associated_data(account_id)).decode()
        _log.error("secret of a second factor is unreadable", account_id=account_id, key_id=key_id)
        return None

    async def require_key(self, transaction: Transaction) -> str | None:
        """Return the id of the key that encrypts, if there is one; refuse if the file lacks it."""
        key_id = await deployment.secret_key_id(transaction)
        if key_id is not None:
            self._file.get(key_id)
        return key_id

    async def prepare(self) -> None:
        """Encrypt the secrets that an older version has stored; refuse to start without the key.

        If the database cannot be written now, the server starts all the same: the secrets can be
        read, and the next start encrypts them.
        """
        self._file.check()
        key_id = await self._database.read(self.require_key)

        async def others(transaction: Transaction) -> list[tuple[str, str]]:
            return await factor_store.secrets_of_other_keys(transaction, key_id or "", "", 1)

        try:
            if await self._database.read(others):
                await self.encrypt_all()
        except (DatabaseUnavailable, OutcomeUnknown) as refusal:
            _log.warning("secrets of second factors were not encrypted", code=refusal.code)

    async def add_key(self) -> str:
        """Add a key to the file, for a rotation that follows; return its id."""

        async def work(transaction: Transaction) -> str:
            await self._lock_key(transaction)
            return self._file.add()

        return await self._database.write(work)

    async def rotate(self, *, is_key_lost: bool = False) -> Rotation:
        """Encrypt all secrets with a new key, and remove the old keys from the file.

        If it is interrupted, the file has all keys that are needed, and the next rotation continues
        with the key that this one has added.
        """

        async def change_key(transaction: Transaction) -> str:
            current = await self._lock_key(transaction)
            if not is_key_lost:
                self._file.get(current)
            key_id = self._file.add()
            await deployment.set_secret_key(transaction, key_id)
            return key_id

        key_id = await self._database.write(change_key)
        encrypted, unreadable = await self.encrypt_all()

        async def remove_others(transaction: Transaction) -> None:
            if await self._lock_key(transaction) == key_id:  # else another rotation has begun
                self._file.keep_only(key_id)

        await self._database.write(remove_others)
        return Rotation(key_id, encrypted, unreadable)

    async def _lock_key(self, transaction: Transaction) -> str:
        """Return the id of the key that encrypts, which does not change before the commit."""
        key_id = await deployment.lock_secret_key(transaction)
        if key_id is None:
            return await deployment.claim_secret_key(transaction, self._file.ids()[-1])
        return key_id

    async def encrypt_all(self) -> tuple[int, int]:
        """Encrypt all secrets with the present key; count those that changed, and the unreadable.

        The key may change meanwhile. Each transaction uses the one that is recorded then.
        """
        encrypted = unreadable = 0
        last_account_id: str | None = ""
        while last_account_id is not None:
            after = last_account_id

            async def work(
                transaction: Transaction, after: str = after
            ) -> tuple[list[bool], str | None]:
                key_id = await self._lock_key(transaction)
                found = await factor_store.secrets_of_other_keys(
                    transaction, key_id, after, BATCH_ROWS
                )
                changed = [await self._renew(transaction, key_id, *row) for row in found]
                return changed, found[-1][0] if found else None

            changed, last_account_id = await self._database.write(work)
            encrypted += sum(changed)
            unreadable += len(changed) - sum(changed)
        return encrypted, unreadable

    async def _renew(
        self, transaction: Transaction, key_id: str, account_id: str, stored: str
    ) -> bool:
        """Encrypt one secret with this key; return False if it is unreadable."""
        secret = self.decrypt(account_id, stored)
        if secret is None:
            return False
        renewed = self._encrypt(key_id, account_id, secret)
        await factor_store.replace_secret(transaction, account_id, stored, renewed)
        return True

    def _encrypt(self, key_id: str, account_id: str, secret: str) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        key = self._file.get(key_id)
        ciphertext = AESGCM(key).encrypt(nonce, secret.encode(), _associated_data(account_id))
        return f"{key_id}.{base64.b64encode(nonce + ciphertext).decode()}"


def _associated_data(account_id: str) -> bytes:
    """Return the associated data, so that no account can be given the secret of another."""
    return f"second factor of {account_id}".encode()
