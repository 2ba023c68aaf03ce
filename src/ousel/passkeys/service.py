"""Asking for passkeys and checking them, in transactions that the callers open."""

import asyncio
import secrets
from typing import Any, Final

from ousel.database.port import Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import new_id, secret_hash
from ousel.passkeys import ceremony, rules, store
from ousel.passkeys.ceremony import BrowserAnswer, NewCredential
from ousel.passkeys.rules import Challenge, Owner, Passkey, RelyingParty

CHALLENGE_BYTES: Final = 32


class PasskeyNotAccepted(Refusal):
    """A passkey is unknown, was made for another site, or did not sign what it was asked to."""

    status = 400
    code = "passkey_not_accepted"
    title = "The passkey was not accepted"
    cure = "Try again, or sign in with a password."


class PasskeyChallenges:
    """Creates challenges, and checks what browsers answer to them."""

    def __init__(self, clock: Clock, portal_url: str) -> None:
        """Accept passkeys that are made for this portal."""
        self._clock = clock
        self.site = rules.relying_party_of(portal_url)

    async def creation_options(
        self, transaction: Transaction, owner: Owner, browser_hash: str
    ) -> dict[str, Any]:
        """Return the options with which this browser makes a passkey for an account."""
        known = await store.passkeys_of(transaction, owner.account_id)
        if len(known) >= rules.PASSKEYS_MAX:
            raise InvalidField(
                f"There are already {rules.PASSKEYS_MAX} passkeys: remove one first.", param="name"
            )
        challenge = await self._challenge(transaction, owner.account_id, browser_hash)
        return rules.creation_options(
            self._required_site(), owner, challenge, [each.credential_id for each in known]
        )

    async def request_options(
        self, transaction: Transaction, account_id: str, browser_hash: str
    ) -> dict[str, Any]:
        """Return the options with which this browser asks for a passkey.

        Without an account, the person chooses among all passkeys that they have for this site.
        """
        known = await store.passkeys_of(transaction, account_id) if account_id else []
        challenge = await self._challenge(transaction, account_id, browser_hash)
        return rules.request_options(
            self._required_site(), challenge, [each.credential_id for each in known]
        )

    async def use_challenge(
        self, transaction: Transaction, answer: BrowserAnswer, account_id: str, browser_hash: str
    ) -> int | None:
        """Use up the challenge that was answered; return when it was issued, if it is valid."""
        now = self._clock()
        asked = Challenge(secret_hash(answer.challenge), browser_hash, account_id, now)
        expires_at = await store.use_challenge(transaction, asked, now)
        if expires_at is None:
            return None
        return expires_at - rules.CHALLENGE_SECONDS * MICROS_PER_SECOND

    async def check_new(self, answer: BrowserAnswer) -> NewCredential | None:
        """Return the new passkey if the answer is right; the check runs on a thread."""
        return await asyncio.to_thread(ceremony.check_new, answer, self._required_site())

    async def check_signature(self, answer: BrowserAnswer, passkey: Passkey) -> int | None:
        """Return the authenticator's counter if the passkey signed the challenge."""
        return await asyncio.to_thread(
            ceremony.check_signature, answer, passkey, self._required_site()
        )

    async def _challenge(self, transaction: Transaction, account_id: str, browser_hash: str) -> str:
        challenge = rules.base64url(secrets.token_bytes(CHALLENGE_BYTES))
        expires_at = self._clock() + rules.CHALLENGE_SECONDS * MICROS_PER_SECOND
        await store.add_challenge(
            transaction, Challenge(secret_hash(challenge), browser_hash, account_id, expires_at)
        )
        return challenge

    def _required_site(self) -> RelyingParty:
        if self.site is None:
            raise PasskeyNotAccepted("Passkeys need a site with a name, not an IP address.")
        return self.site


async def find_passkey_of_answer(
    transaction: Transaction, answer: BrowserAnswer, account_id: str
) -> Passkey | None:
    """Return the passkey that an answer names: of this account or, if none is given, of any.

    If the account is known, the authenticator need not say whom the passkey is for.
    """
    found = await store.passkeys_by_credential(transaction, answer.credential_id)
    if account_id:
        found = [each for each in found if each.account_id == account_id]
        if answer.user_handle is None:
            return found[0] if found else None
    return next((each for each in found if answer.names(each.account_id)), None)


async def passkeys_of(transaction: Transaction, account_id: str) -> list[Passkey]:
    """Return the account's passkeys, oldest first."""
    return await store.passkeys_of(transaction, account_id)


async def has_passkey(transaction: Transaction, account_id: str) -> bool:
    """Return whether the account has a passkey."""
    return await store.has_passkey(transaction, account_id)


async def is_stored(transaction: Transaction, passkey: Passkey) -> bool:
    """Return whether the account still has this passkey."""
    known = await store.passkeys_of(transaction, passkey.account_id)
    return passkey.id in {each.id for each in known}


async def add(
    transaction: Transaction, account_id: str, name: str, credential: NewCredential, clock: Clock
) -> None:
    """Store a passkey; the caller has locked the account."""
    if await store.passkeys_by_credential(transaction, credential.credential_id):
        raise PasskeyNotAccepted("This passkey has been added before.")
    if len(await store.passkeys_of(transaction, account_id)) >= rules.PASSKEYS_MAX:
        raise PasskeyNotAccepted("There are too many passkeys: remove one first.")
    passkey = Passkey(
        account_id=account_id,
        id=new_id("pk_", clock),
        credential_id=credential.credential_id,
        public_key=credential.public_key,
        name=name,
        sign_count=credential.sign_count,
        created_at=clock(),
        last_used_at=None,
    )
    await store.add_passkey(transaction, passkey)


async def record_use(transaction: Transaction, passkey: Passkey, sign_count: int, now: int) -> bool:
    """Record a use; return False if the counter has not gone up, or the passkey was removed."""
    return await store.use_passkey(transaction, passkey, sign_count, now)


async def rename(transaction: Transaction, account_id: str, passkey_id: str, name: str) -> None:
    """Change the name of a passkey."""
    await store.rename_passkey(transaction, account_id, passkey_id, name)


async def remove(transaction: Transaction, account_id: str, passkey_id: str) -> None:
    """Remove a passkey."""
    await store.remove_passkey(transaction, account_id, passkey_id)


async def remove_all(transaction: Transaction, account_id: str) -> None:
    """Remove all passkeys of the account."""
    await store.remove_passkeys(transaction, account_id)


async def delete_expired_challenges(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` challenges that expired before this moment."""
    return await store.delete_expired_challenges(transaction, before, limit)
