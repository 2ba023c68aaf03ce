"""If the connection breaks during the commit, the outcome is unknown and nothing is repeated."""

import pytest

from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.kernel.errors import OutcomeUnknown
from tests.database.sample_rows import add_row, committed_rows
from tests.support.postgres_proxy import Cut, PostgresProxy


@pytest.mark.parametrize(
    ("cut", "kept"), [("before the commit", {}), ("after the commit", {"attempt 1": ""})]
)
async def test_an_unknown_commit_is_never_repeated(
    proxied: PostgresDatabase, proxy: PostgresProxy, cut: Cut, kept: dict[str, str]
) -> None:
    """It raises OutcomeUnknown after one attempt, whether or not the server has committed."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        await add_row(transaction, f"attempt {attempts}")

    proxy.cuts.append(cut)
    with pytest.raises(OutcomeUnknown) as refused:
        await proxied.write(work)

    assert attempts == 1
    assert refused.value.retry_after_seconds == 1
    assert not proxy.cuts
    assert await committed_rows(proxied) == kept
