"""The secret file: created for its owner alone, replaced as a whole, and refused if it is wrong."""

import base64
import os
import stat
from pathlib import Path

import pytest

from ousel.kernel.settings import Settings
from ousel.people.secret_file import KEYS_MAX, SecretFile, SecretFileUnusable, secret_file_of

KEY = base64.b64encode(bytes(32)).decode()


def keys_in(path: Path) -> list[str]:
    """Return the lines of a file that are keys."""
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_a_file_beside_an_sqlite_file_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    """When it is needed, with one random key; a second process uses the same."""
    before = os.umask(0)
    try:
        settings = Settings(database_url=str(tmp_path / "ousel.db"))
        first = secret_file_of(settings).ids()
    finally:
        os.umask(before)

    path = tmp_path / "ousel.db.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(keys_in(path)) == 1
    assert secret_file_of(settings).ids() == first
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_existing_file_is_never_replaced_by_a_new_one(tmp_path: Path) -> None:
    """Two processes that create the file at the same time use the same key."""
    file = SecretFile(tmp_path / "secret", may_create=True)
    (key_id,) = file.ids()
    file.create()
    assert file.ids() == [key_id]


def test_a_file_that_is_set_must_exist(tmp_path: Path) -> None:
    """A mistyped path must not lead to a second key."""
    file = secret_file_of(Settings(secret_file=tmp_path / "secret"))
    with pytest.raises(SecretFileUnusable, match="does not exist: create it with"):
        file.check()
    file.create()
    file.check()


def test_a_link_to_a_missing_file_is_no_secret_file(tmp_path: Path) -> None:
    """Nobody is told that the file was created."""
    path = tmp_path / "secret"
    path.symlink_to(tmp_path / "missing")
    with pytest.raises(SecretFileUnusable, match=f"{path} cannot be read: No such file"):
        SecretFile(path, may_create=False).create()


def test_postgresql_needs_the_setting() -> None:
    """There is no folder of the database to put the file into."""
    file = secret_file_of(Settings(database_url="postgresql://database/ousel"))
    file.check()  # nobody may ever need it
    with pytest.raises(SecretFileUnusable, match=r"^OUSEL_SECRET_FILE must be set"):
        file.ids()
    with pytest.raises(SecretFileUnusable, match="set OUSEL_SECRET_FILE"):
        file.get("0123456789ab")


def test_keys_are_added_and_removed(tmp_path: Path) -> None:
    """A file with two keys keeps them until one is chosen; what was read stays in memory."""
    path = tmp_path / "secret"
    file, server = (SecretFile(path, may_create=True) for _ in range(2))
    (old,) = server.ids()
    new = file.add()
    assert file.add() == new
    assert file.ids() == [old, new]
    assert server.get(new) == file.get(new)  # the server reads the file again
    file.keep_only(new)

    assert len(keys_in(path)) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.find(old) is not None
    assert SecretFile(path, may_create=True).find(old) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "secret\n",
        f"{KEY[:-4]}\n",
        f"{KEY}\nx\n",
        "ключ\n",
        f"{KEY}\n" * (KEYS_MAX + 1),
    ],
)
def test_a_file_that_is_not_a_list_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    """The line names the file, and shows nothing of its content."""
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(SecretFileUnusable, match=str(path)) as refused:
        SecretFile(path, may_create=False).ids()
    assert KEY not in refused.value.detail


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """The line names the reason."""
    with pytest.raises(SecretFileUnusable, match=r"cannot be read: Is a directory\.$"):
        SecretFile(tmp_path, may_create=False).ids()


def test_openssl_can_make_a_key(tmp_path: Path) -> None:
    """32 bytes in base64, with white space around them."""
    path = tmp_path / "secret"
    path.write_text(f"  {KEY} \n\n")
    assert len(SecretFile(path, may_create=False).ids()) == 1
