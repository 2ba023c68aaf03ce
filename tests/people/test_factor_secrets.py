"""Secrets of second factors are encrypted with a key that is not in the database."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from ousel.database.port import Database, Transaction
from ousel.kernel.errors import OutcomeUnknown
from ousel.people import factor_secrets, factor_store, store
from ousel.people.attempts import AttemptCounter
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.notices import EventNotices
from ousel.people.rules import CODE_LIMIT, Session
from ousel.people.second_factor import SecondFactorService
from ousel.people.secret_file import SecretFile, SecretFileUnusable
from tests.people.members import HOME, LAPTOP, Member
from tests.support.delegating_database import DelegatingDatabase
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD
from tests.support.waiting import until_done_or_blocked

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture
def secrets(database: Database, secret_file: SecretFile) -> FactorSecrets:
    """The secrets of a fresh database, with its file."""
    return FactorSecrets(database, secret_file)


async def stored_secrets(raw_sql: RawSql) -> dict[str, str]:
    """Return what the database stores, by account."""
    rows = await raw_sql.run("SELECT account_id, secret FROM second_factors ORDER BY account_id")
    return {row[0]: row[1] for row in rows}


async def add_plain_factors(raw_sql: RawSql, count: int) -> dict[str, str]:
    """Store secrets as an older Ousel did; return them by account."""
    plain = {f"acct_{number:03d}": f"{SECRET[:-3]}{number:03d}" for number in range(count)}
    for account_id, secret in plain.items():
        await raw_sql.run(
            "INSERT INTO second_factors (account_id, secret, confirmed_at, last_step)"
            " VALUES (?, ?, 1, 0)",
            account_id,
            secret,
        )
    return plain


def decrypted(secrets: FactorSecrets, stored: dict[str, str]) -> dict[str, str | None]:
    """Return the secrets in what the database stores."""
    return {account_id: secrets.decrypt(account_id, text) for account_id, text in stored.items()}


async def sign_in_with_code(ada: Member) -> None:
    """Sign in with the code that the authenticator app shows."""
    waiting = await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    await ada.sign_in.sign_in_with_code(waiting.secret, ada.code(), LAPTOP)
    ada.pass_a_code()


async def test_the_database_does_not_contain_the_secret(
    ada: Member, database: Database, secrets: FactorSecrets, raw_sql: RawSql, tmp_path: Path
) -> None:
    """Neither plain nor with its key; without the file, the secret cannot be read."""
    await ada.turn_on_factor()
    stored = await stored_secrets(raw_sql)

    assert ada.factor_secret not in stored[ada.account_id]
    assert decrypted(secrets, stored) == {ada.account_id: ada.factor_secret}
    other = FactorSecrets(database, SecretFile(tmp_path / "other", may_create=True))
    assert decrypted(other, stored) == {ada.account_id: None}
    await sign_in_with_code(ada)


async def test_a_secret_is_bound_to_its_account(
    ada: Member, secrets: FactorSecrets, raw_sql: RawSql
) -> None:
    """Whoever copies their own row to somebody else's account cannot sign in there."""
    await ada.turn_on_factor()
    (stored,) = (await stored_secrets(raw_sql)).values()
    key_id, text = stored.split(".")
    spoilt = f"{key_id}.{text[:-5]}{'A' if text[-5] != 'A' else 'B'}{text[-4:]}"

    assert secrets.decrypt("acct_other", stored) is None
    assert secrets.decrypt(ada.account_id, spoilt) is None
    assert secrets.decrypt(ada.account_id, f"{key_id}.A") is None


async def test_a_start_encrypts_what_an_older_version_has_stored(
    secrets: FactorSecrets, raw_sql: RawSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No secret is left in plain text; a second start changes nothing."""
    monkeypatch.setattr(factor_secrets, "BATCH_ROWS", 3)
    plain = await add_plain_factors(raw_sql, 7)
    assert decrypted(secrets, plain) == plain  # an older server may still write them

    await secrets.prepare()

    stored = await stored_secrets(raw_sql)
    assert not any(plain[account_id] in text for account_id, text in stored.items())
    assert decrypted(secrets, stored) == plain
    await secrets.prepare()
    assert await stored_secrets(raw_sql) == stored


class UnwritableDatabase(DelegatingDatabase):
    """A database without a follower, whose commits are abandoned."""

    @override
    async def write(self, *_: object, **__: object) -> Any:
        raise OutcomeUnknown("The test says so.")


async def test_a_start_while_no_commit_succeeds_leaves_the_secrets_as_they_are(
    database: Database, secret_file: SecretFile, raw_sql: RawSql
) -> None:
    """They can be read, and a later start encrypts them."""
    plain = await add_plain_factors(raw_sql, 1)

    secrets = FactorSecrets(UnwritableDatabase(database), secret_file)
    await secrets.prepare()
    unchanged = await stored_secrets(raw_sql)
    await FactorSecrets(database, secret_file).prepare()

    assert unchanged == decrypted(secrets, unchanged) == plain
    assert await stored_secrets(raw_sql) != plain


async def test_a_start_creates_no_file_that_nobody_needs(
    secrets: FactorSecrets, tmp_path: Path
) -> None:
    """Without second factors there is nothing to lose."""
    await secrets.prepare()
    assert not (tmp_path / "secret").exists()


async def test_a_start_without_the_key_is_refused(
    ada: Member, database: Database, tmp_path: Path
) -> None:
    """Such as after a restore without the file; a new file does not help."""
    await ada.turn_on_factor()
    for file in (
        SecretFile(None, may_create=False),
        SecretFile(tmp_path / "other", may_create=True),
    ):
        with pytest.raises(SecretFileUnusable, match="restore the file from its backup"):
            await FactorSecrets(database, file).prepare()


async def test_a_start_with_plain_secrets_needs_the_setting(
    database: Database, raw_sql: RawSql
) -> None:
    """The line names the setting and the command; the secrets stay as they are."""
    plain = await add_plain_factors(raw_sql, 1)
    with pytest.raises(SecretFileUnusable, match=r"OUSEL_SECRET_FILE must be set.+secret create"):
        await FactorSecrets(database, SecretFile(None, may_create=False)).prepare()
    assert await stored_secrets(raw_sql) == plain


async def test_a_rotation_leaves_nothing_of_the_old_key(
    ada: Member,
    secrets: FactorSecrets,
    secret_file: SecretFile,
    raw_sql: RawSql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All secrets are encrypted anew, also plain ones, and codes work before and after."""
    monkeypatch.setattr(factor_secrets, "BATCH_ROWS", 3)
    await ada.turn_on_factor()
    plain = await add_plain_factors(raw_sql, 7) | {ada.account_id: ada.factor_secret}
    (old,) = secret_file.ids()

    rotation = await secrets.rotate()

    stored = await stored_secrets(raw_sql)
    assert (rotation.encrypted, rotation.unreadable) == (8, 0)
    assert {text.partition(".")[0] for text in stored.values()} == {rotation.key_id}
    assert secret_file.ids() == [rotation.key_id] != [old]
    assert decrypted(secrets, stored) == plain
    await sign_in_with_code(ada)


@pytest.mark.parametrize("step", ["encrypt_all", "keep_only"])
async def test_an_interrupted_rotation_is_continued(
    ada: Member,
    secrets: FactorSecrets,
    secret_file: SecretFile,
    raw_sql: RawSql,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """Codes work meanwhile, a factor can be turned on, and the next rotation uses the same key."""

    def kill(*_: object) -> None:
        raise RuntimeError("killed")

    await ada.turn_on_factor()
    owner = FactorSecrets if step == "encrypt_all" else SecretFile
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, kill)
        with pytest.raises(RuntimeError, match="killed"):
            await secrets.rotate()
    await sign_in_with_code(ada)
    await secrets.prepare()
    old, new = secret_file.ids()

    rotation = await secrets.rotate()

    assert rotation.key_id == new
    assert secret_file.ids() == [new] != [old]
    assert decrypted(secrets, await stored_secrets(raw_sql)) == {ada.account_id: ada.factor_secret}
    await sign_in_with_code(ada)


@pytest.mark.parametrize("engine", ["postgresql"])  # SQLite has one writer at a time
async def test_a_factor_that_is_proposed_during_a_rotation_survives_it(
    ada: Member,
    secrets: FactorSecrets,
    database_url: str,
    raw_sql: RawSql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rotation waits for a transaction that has encrypted with the old key."""
    await secrets.rotate()
    encrypted, rotating = asyncio.Event(), asyncio.Event()
    propose = factor_store.propose_authenticator_app

    async def slowly(transaction: Transaction, account_id: str, secret: str, session: str) -> str:
        encrypted.set()
        await rotating.wait()
        return await propose(transaction, account_id, secret, session)

    monkeypatch.setattr(factor_store, "propose_authenticator_app", slowly)
    proposing = asyncio.create_task(ada.propose_factor())
    await encrypted.wait()
    rotation = asyncio.create_task(secrets.rotate())
    await until_done_or_blocked(rotation, database_url)
    rotating.set()
    await proposing
    key_id = (await rotation).key_id

    stored = await stored_secrets(raw_sql)
    assert stored[ada.account_id].startswith(f"{key_id}.")
    assert decrypted(secrets, stored) == {ada.account_id: ada.factor_secret}


async def test_a_start_during_a_rotation_does_not_bring_the_old_key_back(
    ada: Member,
    database: Database,
    tmp_path: Path,
    raw_sql: RawSql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever encrypts uses the key that the database records at that moment."""
    await ada.turn_on_factor()
    starting, operator, later = (
        FactorSecrets(database, SecretFile(tmp_path / "secret", may_create=False)) for _ in range(3)
    )
    encrypt_all = FactorSecrets.encrypt_all

    async def after_rotation(self: FactorSecrets, *given: Any) -> Any:
        monkeypatch.setattr(FactorSecrets, "encrypt_all", encrypt_all)
        await operator.rotate()
        return await encrypt_all(self, *given)

    monkeypatch.setattr(FactorSecrets, "encrypt_all", after_rotation)
    await starting.prepare()

    expected = {ada.account_id: ada.factor_secret}
    assert decrypted(later, await stored_secrets(raw_sql)) == expected


async def test_concurrent_rotations_lose_no_secret(
    ada: Member, database: Database, tmp_path: Path, raw_sql: RawSql
) -> None:
    """Each of them ends with one key in the file, and all secrets are encrypted with it."""
    await ada.turn_on_factor()
    services = [
        FactorSecrets(database, SecretFile(tmp_path / "secret", may_create=True)) for _ in range(3)
    ]
    await asyncio.gather(*(service.rotate() for service in services))

    (key_id,) = SecretFile(tmp_path / "secret", may_create=False).ids()
    stored = await stored_secrets(raw_sql)
    assert stored[ada.account_id].startswith(f"{key_id}.")
    assert decrypted(services[0], stored) == {ada.account_id: ada.factor_secret}


async def test_hosts_with_files_of_their_own_rotate_in_three_steps(
    ada: Member, database: Database, secrets: FactorSecrets, tmp_path: Path, raw_sql: RawSql
) -> None:
    """A key is added and copied first, so that no host ever meets a key that it does not have."""
    await ada.turn_on_factor()
    own, copy = tmp_path / "secret", tmp_path / "copy"
    copy.write_bytes(own.read_bytes())
    other_host = FactorSecrets(database, SecretFile(copy, may_create=False))

    added = await secrets.add_key()
    await other_host.prepare()
    copy.write_bytes(own.read_bytes())
    rotation = await secrets.rotate()

    assert rotation.key_id == added
    expected = {ada.account_id: ada.factor_secret}
    assert decrypted(other_host, await stored_secrets(raw_sql)) == expected
    await other_host.prepare()


async def test_a_lost_key_leaves_recovery_codes(
    ada: Member,
    database: Database,
    attempts: AttemptCounter,
    notices: EventNotices,
    tmp_path: Path,
    raw_sql: RawSql,
) -> None:
    """The rotation must be told; then recovery codes sign in, and a new factor can be turned on."""
    await ada.turn_on_factor()
    grace = "acct_grace"
    session = Session("of grace", grace, "signed_in", 0, 0, 1, "192.0.2.1", "", 0)
    await database.write(lambda transaction: store.add_session(transaction, session))
    await ada.second_factors.propose(grace, session.hash)
    (tmp_path / "secret").unlink()
    restarted = FactorSecrets(database, SecretFile(tmp_path / "secret", may_create=True))
    with pytest.raises(SecretFileUnusable):
        await restarted.rotate()

    rotation = await restarted.rotate(is_key_lost=True)

    assert (rotation.encrypted, rotation.unreadable) == (0, 2)
    await restarted.prepare()
    factors = SecondFactorService(database, ada.clock, ada.clock, attempts, notices, restarted)
    assert not await factors.with_code(ada.account_id, ada.code(), HOME, _accept)
    await factors.remove(ada.account_id, ada.recovery_codes[0], HOME)
    assert await factors.propose(ada.account_id, ada.session_hash) != ada.factor_secret
    shown = await factors.propose(grace, session.hash)
    assert restarted.decrypt(grace, (await stored_secrets(raw_sql))[grace]) == shown


@pytest.mark.parametrize("fault", ["not set", "gone", "damaged", "without the new key"])
async def test_a_server_with_an_unusable_file_accepts_recovery_codes(
    ada: Member,
    database: Database,
    attempts: AttemptCounter,
    notices: EventNotices,
    tmp_path: Path,
    fault: str,
) -> None:
    """Codes of the app get a 503 meanwhile, and do not count as wrong, however many they are."""
    await ada.turn_on_factor()
    own, copy = tmp_path / "secret", tmp_path / "copy"
    if fault == "damaged":
        copy.write_text("x")
    elif fault == "without the new key":
        copy.write_bytes(own.read_bytes())
        await FactorSecrets(database, SecretFile(own, may_create=False)).rotate()
    file = SecretFile(None if fault == "not set" else copy, may_create=False)
    server = FactorSecrets(database, file)
    factors = SecondFactorService(database, ada.clock, ada.clock, attempts, notices, server)

    for _ in range(CODE_LIMIT.attempts_max + 1):
        with pytest.raises(SecretFileUnusable):
            await factors.with_code(ada.account_id, ada.code(), HOME, _accept)
    assert await factors.with_code(ada.account_id, ada.recovery_codes[0], HOME, _accept)


async def _accept(_: Transaction) -> bool:
    return True
