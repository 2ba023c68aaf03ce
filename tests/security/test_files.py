"""Files that commands create can be read by their user only."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import ousel_process
from tests.support.engines import Engine, Engines

pytestmark = pytest.mark.slow

OWNER_READS_AND_WRITES = 0o600


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    """Set the usual umask, with which everybody can read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("postgres_tools", "_usual_umask")
def test_what_commands_write_is_for_their_user_alone(
    engine: Engine, engines: Engines, tmp_path: Path
) -> None:
    """A database, a backup and an export have private data, so only their user can read them."""
    url = engines.empty_url(engine, tmp_path)
    for arguments in (
        ("migrate",),
        ("backup", str(tmp_path / "books.backup")),
        ("export", str(tmp_path / "books.jsonl")),
    ):
        done = ousel_process(*arguments, database=url)
        assert done.exit_code == 0, done.errors
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert len(modes) == (3 if engine == "sqlite" else 2)
    assert set(modes.values()) == {OWNER_READS_AND_WRITES}, modes
