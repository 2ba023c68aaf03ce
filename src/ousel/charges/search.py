"""Searching charges with several filters, which may have to read many charges to fill a page.

An index serves one filter. If a query has several, a search reads the charges that match one of
them, and drops those that do not match the others. The first step reads as many charges as the page
may have. The further steps read more of them, and take turns (`SearchTurns`). So an account with
many charges delays nobody else.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from ousel.charges import store
from ousel.charges.lifecycle import status_at
from ousel.charges.rules import Charge, ChargeQuery
from ousel.database.port import Database
from ousel.kernel.concurrency import SearchTurns

STEP_CHARGES: Final = 200  # reading this many takes less than a millisecond


class ChargeSearch:
    """Finds pages of charges."""

    def __init__(self, database: Database) -> None:
        """Search in this database."""
        self._database = database
        self._turns = SearchTurns()

    async def find(self, query: ChargeQuery, now: int) -> list[Charge]:
        """Return the first charges that match the query now, at most one more than its limit."""
        step = _served_by_an_index(query)
        charges = await self._read(step, now)
        if step == query:
            return charges
        found = _matching(query, charges[: step.limit], now)
        if len(charges) > step.limit and len(found) <= query.limit:
            with self._turns.search(query.account_id):
                while len(charges) > step.limit and len(found) <= query.limit:
                    last = charges[step.limit - 1]
                    step = msgspec.structs.replace(
                        step, limit=STEP_CHARGES, position=(last.created_at, last.id)
                    )
                    async with self._turns.step(query.account_id):
                        charges = await self._read(step, now)
                    found += _matching(query, charges[: step.limit], now)
        return found[: query.limit + 1]

    async def _read(self, query: ChargeQuery, now: int) -> list[Charge]:
        return await self._database.read(partial(store.page_of_charges, query=query, now=now))


def _served_by_an_index(query: ChargeQuery) -> ChargeQuery:
    """Return the query with only those filters that one index serves together.

    Open charges are few, because they are less than two hours old, so they may have all filters.
    """
    if query.status == "created":
        return query
    if query.reference is not None:
        return msgspec.structs.replace(query, status=None, app_id=None)
    if query.status is not None:
        return msgspec.structs.replace(query, app_id=None)
    return query


def _matching(query: ChargeQuery, charges: Iterable[Charge], now: int) -> list[Charge]:
    """Return those of the charges that pass the filters that were left out."""
    return [
        charge
        for charge in charges
        if query.app_id in {None, charge.app_id} and query.status in {None, status_at(charge, now)}
    ]
