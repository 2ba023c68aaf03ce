"""Query plans of PostgreSQL."""

from ousel.database.port import Transaction
from ousel.database.statements import Statement, for_postgres

_PARAMETERS = Statement(
    "how many parameters a prepared statement has",
    "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'explained'",
)


async def postgres_plan(transaction: Transaction, statement: Statement) -> list[str]:
    """Return the lines of the generic plan that Ousel's sessions use for a statement."""
    prepare = f"PREPARE explained AS {for_postgres(statement).text}"
    await transaction.fetch(Statement("prepare", prepare))
    [[count]] = await transaction.fetch(_PARAMETERS)
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    lines = await transaction.fetch(Statement("explain", f"EXPLAIN EXECUTE explained{values}"))
    await transaction.fetch(Statement("forget", "DEALLOCATE explained"))
    return [str(line[0]).strip() for line in lines]
