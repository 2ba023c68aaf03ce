"""How much of everything: little in the whole test run, much with `make faults`."""

import os
from typing import TypeVar

Size = TypeVar("Size", int, float)

FULL = os.environ.get("OUSEL_FAULTS") == "full"
SEED = int(os.environ.get("OUSEL_FAULTS_SEED", "20261115"))


def sized(short: Size, full: Size) -> Size:
    """Return the short or the full size."""
    return full if FULL else short


KILLS = sized(1, 200)  # of the server, on each engine
CLIENT_KILLS = sized(2, 200)  # of a program that follows its account
SERVER_KILLS = sized(1, 50)
MOVEMENTS_FOLLOWED = sized(50, 50_000)
MOVEMENTS_SEALED = sized(10, 100_000)
STOPS = sized(1, 50)  # of PostgreSQL
NO_FOLLOWER_SECONDS = sized(2.0, 120.0)
CALM_SECONDS = sized(0.3, 60.0)
COMMITS_CUT = sized(5, 200)
TRANSFERS_THROUGH_A_PROXY = sized(100, 50_000)
TERMINATIONS = sized(1, 20)
TEST_SECONDS_MAX = sized(600, 3_600)

SOAK_SECONDS = sized(0.5, 60 * float(os.environ.get("OUSEL_FAULTS_SOAK_MINUTES", "20")))
TOP_SPEED_SECONDS = sized(0.2, 20.0)
