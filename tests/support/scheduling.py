"""How tests are divided among workers."""

from typing_extensions import override
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

JOURNEYS = "tests/journeys/"
WITHOUT_SERVER = f"{JOURNEYS}test_pages.py"


class JourneysTogether(LoadFileScheduling):  # type: ignore[misc]
    """Gives each file to one worker, and all journeys to the same one: they share a server."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return JOURNEYS if file.startswith(JOURNEYS) and file != WITHOUT_SERVER else file
