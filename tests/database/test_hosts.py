"""An address may name several hosts: Ousel connects to the one that takes writes."""

import os
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ousel.database.backup import BackupFailed, back_up
from ousel.database.hosts import primary_url, single_host_urls
from ousel.database.postgres import PostgresDatabase
from ousel.database.schema import migrate
from ousel.kernel.errors import DatabaseUnavailable
from tests.database.sample_rows import add_row, committed_rows
from tests.support.postgres_proxy import PostgresProxy
from tests.support.raw_sql import RawSql
from tests.support.waiting import until_async

UNUSED_ADDRESS = "127.0.0.1:1"
CLOCK_TICKS_PER_SECOND = 100  # the unit of /proc


@pytest.fixture
def silent_host() -> Iterator[str]:
    """A host that accepts connections and never answers, like a machine that is stuck."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def with_other_hosts(url: str, *others: str) -> str:
    """Return the address with other hosts before its own."""
    return url.replace("@", f"@{','.join(others)},", 1)


def timers_of_connections_to(port: int) -> list[list[str]]:
    """Return the kernel's timer of each connection: its kind, and when it is due."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[5].split(":") for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://db/ousel", ["postgresql://db/ousel"]),
        ("postgresql:///ousel?host=/run", ["postgresql:///ousel?host=/run"]),
        (
            "postgres://u:p@a:1,b:2,c/ousel?x=y",
            [f"postgres://u:p@{host}/ousel?x=y" for host in ("a:1", "b:2", "c")],
        ),
        (
            "postgresql://u:p,q@[::1]:1,[::2]:2",
            ["postgresql://u:p,q@[::1]:1", "postgresql://u:p,q@[::2]:2"],
        ),
    ],
)
def test_an_address_is_split_by_hosts(url: str, hosts: list[str]) -> None:
    """There is one address for each host; a comma in another part separates nothing."""
    assert single_host_urls(url) == hosts


@pytest.mark.parametrize(
    ("url", "primary"),
    [
        ("postgresql://a/ousel", "postgresql://a/ousel"),
        ("postgresql://a,b/ousel", "postgresql://a,b/ousel?target_session_attrs=read-write"),
        (
            "postgresql://a,b/ousel?sslmode=require",
            "postgresql://a,b/ousel?sslmode=require&target_session_attrs=read-write",
        ),
        (
            "postgresql://a,b/ousel?target_session_attrs=primary",
            "postgresql://a,b/ousel?target_session_attrs=primary",
        ),
    ],
)
def test_several_hosts_mean_the_one_that_takes_writes(url: str, primary: str) -> None:
    """The option is added unless the address has it already or names a single host."""
    assert primary_url(url) == primary


@pytest.mark.slow
async def test_a_host_that_is_dead_or_stuck_delays_nobody(
    proxy: PostgresProxy, silent_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The primary is found at once, whatever hosts come before it; migrations find it too."""
    monkeypatch.setattr("ousel.database.postgres.CONNECT_TIMEOUT_SECONDS", 60.0)
    url = with_other_hosts(proxy.url, silent_host, UNUSED_ADDRESS)
    started = time.monotonic()
    database = PostgresDatabase(url)
    await database.open()
    try:
        await database.write(lambda transaction: add_row(transaction, "a"))
        assert await committed_rows(database) == {"a": ""}
    finally:
        await database.close()
    await migrate(url)
    assert time.monotonic() - started < 50.0  # of the 60 for which a stuck host is waited for


def test_the_tools_of_postgresql_get_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup connects to the host that takes writes, and tries each for 5 seconds at most."""
    tool = tmp_path / "pg_dump"
    tool.write_text('#!/bin/sh\necho "$PGCONNECT_TIMEOUT $*" >&2\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)

    with pytest.raises(BackupFailed) as failed:
        back_up("postgresql://a,b/ousel", tmp_path / "backup")

    assert "pg_dump failed: 5 " in str(failed.value)
    assert " --dbname=postgresql://a,b/ousel?target_session_attrs=read-write" in str(failed.value)


async def test_hosts_that_take_no_writes_are_skipped(
    proxy: PostgresProxy, postgres_url: str
) -> None:
    """If all hosts are standbys, the database is unavailable until one of them takes writes."""
    name = postgres_url.partition("/ousel_")[2].partition("?")[0]
    database = PostgresDatabase(with_other_hosts(proxy.url, UNUSED_ADDRESS))
    async with RawSql(postgres_url) as raw_sql:
        await raw_sql.run(f"ALTER DATABASE ousel_{name} SET default_transaction_read_only = on")
        try:
            with pytest.raises(DatabaseUnavailable):
                await database.open()
        finally:
            await raw_sql.run(f"ALTER DATABASE ousel_{name} RESET default_transaction_read_only")
    await database.open()
    assert await committed_rows(database) == {}
    await database.close()


async def test_a_connection_notices_that_its_host_has_vanished(
    proxied: PostgresDatabase, proxy: PostgresProxy
) -> None:
    """The kernel sends keepalives after five idle seconds, not after two hours."""
    await committed_rows(proxied)
    port = int(proxy.url.rpartition(":")[2].partition("/")[0])
    timers = timers_of_connections_to(port)
    assert timers
    for timer, due in timers:
        assert timer == "02"
        assert 0 < int(due, 16) <= 5 * CLOCK_TICKS_PER_SECOND


async def test_only_one_connection_is_kept(proxy: PostgresProxy, postgres_url: str) -> None:
    """If two hosts accept a connection, one is kept and the other ended."""
    twice = proxy.url.replace("@", f"@{proxy.url.partition('@')[2].partition('/')[0]},", 1)
    database = PostgresDatabase(twice)
    await database.open()
    try:
        async with RawSql(postgres_url) as raw_sql:
            await until_async(partial(_is_alone, raw_sql))
    finally:
        await database.close()


async def _is_alone(raw_sql: RawSql) -> bool:
    rows = await raw_sql.run(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'ousel'"
    )
    return rows == [(1,)]
