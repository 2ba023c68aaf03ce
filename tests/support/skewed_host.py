"""Runs `ousel` as if the host's clock were wrong, by the number of seconds in the first argument.

Only the clock of this Python process is shifted, so no other program is needed.
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
