"""Health checks: whether the process runs, and whether it can serve requests."""

from ousel.api.route import Call, NoBody, NoQuery, Route
from ousel.database.clock import DatabaseClock, check_skew
from ousel.database.port import Database
from ousel.database.schema import SCHEMA_VERSION, is_supported, schema_version
from ousel.http.messages import Answer, json_answer
from ousel.kernel.errors import Refusal


class SchemaOutdated(Refusal):
    """The database's schema is older than the one that this version of Ousel needs."""

    status = 503
    code = "schema_outdated"
    title = "The schema is not current"
    cure = "The operator must run `ousel migrate`, or correct the address of the database."


class Health:
    """Answers the health checks of an orchestrator."""

    def __init__(
        self, database: Database, database_url: str, database_clock: DatabaseClock
    ) -> None:
        """Check this database and its clock."""
        self._database = database
        self._database_url = database_url
        self._database_clock = database_clock

    def routes(self) -> list[Route]:
        """Return the routes of the health checks, which are not below the base path."""
        return [
            Route(
                method="GET",
                path=path,
                endpoint=endpoint,
                name=path[1:],
                summary=summary,
                access="public",
                in_reference=False,
            )
            for path, endpoint, summary in (
                ("/healthz", self.alive, "The process answers"),
                (
                    "/readyz",
                    self.ready,
                    "The database is reachable, its schema is current and the clock is right",
                ),
            )
        ]

    async def alive(self, _: Call[NoBody, NoQuery] | None = None) -> Answer:
        """Answer 200, because the process runs."""
        return json_answer({"status": "ok"})

    async def ready(self, _: Call[NoBody, NoQuery] | None = None) -> Answer:
        """Answer 200 if requests can be served, or refuse and say why not."""
        version = await schema_version(self._database, self._database_url)
        if not is_supported(version):
            found = f"The schema is at {version}" if version else "The database has no schema"
            raise SchemaOutdated(f"{found}, but {SCHEMA_VERSION} is needed.")
        check_skew(self._database_clock.skew_micros)
        return json_answer({"status": "ok", "schema": version})
