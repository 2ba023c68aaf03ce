"""`ousel secret`: the key that encrypts the secrets of second factors."""

from typing import Annotated

import typer

from ousel.cli.command_group import command_group
from ousel.cli.console import DatabaseOption, JsonOption, fail, show
from ousel.cli.databases import run_with, settings
from ousel.database.port import Database
from ousel.kernel.clock import Clock
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.secret_file import secret_file_of

secrets = command_group("Create and rotate the key that encrypts the secrets of second factors.")


@secrets.command()
def create(database: DatabaseOption = None, *, as_json: JsonOption = False) -> None:
    """Create the secret file with a new key: at OUSEL_SECRET_FILE, or beside the SQLite file."""
    file = secret_file_of(settings(database))
    if file.exists():
        fail("the secret file exists already: to replace its key, run 'ousel secret rotate'")
    show({"file": file.create()}, as_json=as_json)


@secrets.command()
def rotate(
    *,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            help="Only add a new key to the file, which you then copy to the other hosts.",
        ),
    ] = False,
    lost: Annotated[
        bool,
        typer.Option(
            "--lost",
            help="Continue although the present key is lost: what it encrypted stays unreadable.",
        ),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Encrypt all secrets with a new key, and remove the old one; servers may keep running."""
    file = secret_file_of(settings(database))

    def new_service(opened: Database, _: Clock) -> FactorSecrets:
        return FactorSecrets(opened, file)

    if prepare:
        key_id = run_with(database, new_service, lambda service: service.add_key())
        show({"added": key_id}, as_json=as_json)
        return
    rotation = run_with(database, new_service, lambda service: service.rotate(is_key_lost=lost))
    record = {"key": rotation.key_id, "encrypted": rotation.encrypted}
    show(record | {"unreadable": rotation.unreadable}, as_json=as_json)
