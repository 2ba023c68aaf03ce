"""Alembic loads this module to run the migrations on the connection of `schema.migrate`."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
