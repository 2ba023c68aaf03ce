"""Runs `ousel` as on a host whose clock is wrong; the first argument says by how many seconds.

This shifts the clock of the Python process alone, so it needs no other program.
"""

import sys
import time

from ousel.cli.main import main

NANOS_PER_SECOND = 1_000_000_000

if __name__ == "__main__":
    seconds = int(sys.argv.pop(1))
    host_time, host_time_ns = time.time, time.time_ns
    time.time = lambda: host_time() + seconds
    time.time_ns = lambda: host_time_ns() + seconds * NANOS_PER_SECOND
    main()
