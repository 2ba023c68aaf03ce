"""The secret file that second factors need on PostgreSQL."""

import tempfile
from pathlib import Path

from ousel.database.addresses import is_postgres
from ousel.people.secret_file import SecretFile


def secret_file_for(database_url: str) -> Path | None:
    """Return the secret file of this run on PostgreSQL; an SQLite file has one of its own."""
    if not is_postgres(database_url):
        return None
    path = Path(tempfile.gettempdir()) / "secret"
    if not path.exists():
        SecretFile(path, may_create=True).create()
    return path
