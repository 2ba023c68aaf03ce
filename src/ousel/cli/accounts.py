"""`ousel account`: open, fund, freeze, show, list, recover; redeem money, vouch for emails."""

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from ousel.accounts.service import AccountService, AccountWithEmail, NewHolder
from ousel.api.fields import money_field
from ousel.api.idempotency import parse_idempotency_key as idempotency_key_of
from ousel.cli.command_group import command_group
from ousel.cli.console import (
    DatabaseOption,
    JsonOption,
    error_console,
    fail,
    show,
    show_list,
)
from ousel.cli.databases import run_with, run_with_outbox
from ousel.kernel.clock import timestamp
from ousel.kernel.errors import Refusal
from ousel.kernel.money import micros_from_json
from ousel.ledger.funding import OperatorTransfer
from ousel.ledger.rules import Account, Status
from ousel.transfers.rules import parse_note

accounts = command_group(
    "Open, fund, freeze, show, list and recover accounts; redeem money; confirm emails."
)

Identifier = Annotated[str, typer.Argument(help="@username, account number or email.")]
Amount = Annotated[str, typer.Argument(help="The amount of money, such as 25.00.")]
NoteOption = Annotated[str | None, typer.Option(help="A note that the account's holder can read.")]
KeyOption = Annotated[
    str | None,
    typer.Option(help="However often you retry with the same key, the money moves once."),
]


@accounts.command()
def create(  # noqa: PLR0913 - one for each option
    *,
    username: Annotated[str, typer.Option(help="3 to 30 characters of a-z, 0-9 and _.")],
    email: Annotated[str, typer.Option(help="The holder's email.")],
    name: Annotated[str, typer.Option(help="The name that others see.")],
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read a password from standard input.")
    ] = False,
    unproven: Annotated[
        bool,
        typer.Option(
            "--unproven",
            help="Let the holder confirm the email; until then, it does not identify the account.",
        ),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open an account; its email counts as confirmed, unless you pass --unproven."""
    password = _password_from_stdin() if password_stdin else None

    async def task(service: AccountService) -> AccountWithEmail:
        from ousel.people.passwords import PasswordService
        from ousel.people.rules import parse_password

        holder = NewHolder(
            username=username,
            email=email,
            display_name=name,
            password_hash=None
            if password is None
            else await PasswordService().hash_password(parse_password(password)),
            email_is_confirmed=not unproven,
        )
        account = await service.open(holder)
        return await service.get_with_email(account.id)

    _show_account(run_with(database, AccountService, task), as_json=as_json)


@accounts.command()
def fund(
    identifier: Identifier,
    amount: Amount,
    *,
    note: NoteOption = None,
    idempotency_key: KeyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue money to an account; on a live server, nothing else creates money."""
    task = _operator_transfer(AccountService.fund, identifier, amount, note, idempotency_key)
    show(run_with(database, AccountService, task), as_json=as_json)


@accounts.command()
def redeem(
    identifier: Identifier,
    amount: Amount,
    *,
    note: NoteOption = None,
    idempotency_key: KeyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take money from an account out of circulation; nothing else removes money."""
    task = _operator_transfer(AccountService.redeem, identifier, amount, note, idempotency_key)
    show(run_with(database, AccountService, task), as_json=as_json)


@accounts.command()
def vouch(
    identifier: Annotated[str, typer.Argument(help="@username or account number.")],
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Vouch for the email of an account: it counts as confirmed, and the account is found by it."""
    confirmed = run_with(
        database, AccountService, lambda service: service.confirm_email(identifier)
    )
    _show_account(confirmed, as_json=as_json)


@accounts.command()
def recover(
    identifier: Identifier,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link, valid once, that sets a new password and removes all second factors."""
    from ousel.people.recovery import OperatorRecovery

    account = run_with_outbox(database, OperatorRecovery, lambda service: service.find(identifier))
    if not yes:
        _confirm_recovery(account)  # not in an event loop, which would hold back the first Ctrl-C
    link = run_with_outbox(database, OperatorRecovery, lambda service: service.issue_link(account))
    record = {"username": account.username, "display_name": account.display_name, "link": link}
    show(record, as_json=as_json)


@accounts.command()
def freeze(
    identifier: Identifier, database: DatabaseOption = None, *, as_json: JsonOption = False
) -> None:
    """Freeze an account: no money leaves it or reaches it."""
    _set_status(identifier, "frozen", database, as_json=as_json)


@accounts.command()
def unfreeze(
    identifier: Identifier, database: DatabaseOption = None, *, as_json: JsonOption = False
) -> None:
    """Unfreeze an account."""
    _set_status(identifier, "active", database, as_json=as_json)


@accounts.command("show")
def show_account(
    identifier: Identifier, database: DatabaseOption = None, *, as_json: JsonOption = False
) -> None:
    """Show an account with its balance."""
    found = run_with(
        database,
        AccountService,
        lambda service: service.find_with_email(identifier, param="identifier"),
        writes=False,
    )
    _show_account(found, as_json=as_json)


@accounts.command("list")
def list_accounts(database: DatabaseOption = None, *, as_json: JsonOption = False) -> None:
    """List all accounts, oldest first."""
    found = run_with(database, AccountService, AccountService.list_all, writes=False)
    show_list([_record(account) for account in found], as_json=as_json)


def _operator_transfer(
    move: Callable[..., Awaitable[OperatorTransfer]],
    identifier: str,
    amount: str,
    note: str | None,
    idempotency_key: str | None,
) -> Callable[[AccountService], Awaitable[dict[str, Any]]]:
    """Return the task that moves this amount and returns what the command prints."""
    micros = micros_from_json(amount.encode())
    parse_note(note)
    idempotency_key_of(None, idempotency_key)

    async def task(service: AccountService) -> dict[str, Any]:
        account = await service.find(identifier, param="identifier")
        moved = await move(service, account, micros, note=note, idempotency_key=idempotency_key)
        try:
            balance = money_field((await service.get(account.id)).balance)
        except Refusal:  # the money has moved: the command must not look as if it had failed
            balance = None
        return {
            "transfer_id": moved.transfer_id,
            "replayed": moved.replayed,
            "account_id": account.id,
            "username": account.username,
            "amount": money_field(micros),
            "balance": balance,
        }

    return task


def _confirm_recovery(account: Account) -> None:
    """End the command unless the operator confirms."""
    question = (
        f"Whoever opens the link takes over @{account.username} ({account.display_name}). "
        "Are you sure that you know who will get it? [y/N]"
    )
    error_console().print(question, markup=False, highlight=False, soft_wrap=True)
    if sys.stdin.buffer.readline().strip().lower() not in {b"y", b"yes"}:
        fail("no link was issued: answer y, or use --yes")


def _password_from_stdin() -> str:
    try:
        return sys.stdin.buffer.readline().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        fail("the password must be text in UTF-8")


def _set_status(identifier: str, status: Status, database: str | None, *, as_json: bool) -> None:
    changed = run_with(
        database, AccountService, lambda service: service.set_status(identifier, status)
    )
    _show_account(changed, as_json=as_json)


def _show_account(found: AccountWithEmail, *, as_json: bool) -> None:
    show(
        _record(found.account)
        | {"email": found.email.address, "email_verified": found.email.is_confirmed},
        as_json=as_json,
    )


def _record(account: Account) -> dict[str, Any]:
    return {
        "id": account.id,
        "username": account.username,
        "account_number": account.account_number,
        "display_name": account.display_name,
        "status": account.status,
        "balance": money_field(account.balance),
        "entries": account.sequence,
        "created_at": timestamp(account.created_at),
    }
