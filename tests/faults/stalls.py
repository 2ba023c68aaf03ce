"""Stalls of the machine: moments at which it did not run what was ready to run.

One process for each core (`python -m tests.faults.stalls CORE`) does nothing but sleep, and the
kernel prefers it to all other processes. If it wakes late, then no process ran on that core: the
host of a virtual machine, for example, gave the core to somebody else. The process prints its
stalls when its standard input is closed. Not everyone may start such processes.
"""

import asyncio
import os
import select
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

Interval = tuple[float, float]  # by the clock of `time.perf_counter`, which processes share

SLEEP_SECONDS = 0.001
LATE_SECONDS_MIN = 0.002
PRIORITY = 50


def may_watch() -> bool:
    """Return whether the kernel lets us prefer a process to all others."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


@asynccontextmanager
async def stalls_watched() -> AsyncIterator[list[Interval]]:
    """Yield a list that holds the stalls of all cores after the block, if we may watch them."""
    stalls: list[Interval] = []
    command = [sys.executable, "-m", "tests.faults.stalls"]
    cores = sorted(os.sched_getaffinity(0)) if may_watch() else []
    processes = [
        await asyncio.create_subprocess_exec(*command, str(core), stdin=PIPE, stdout=PIPE)
        for core in cores
    ]
    try:
        yield stalls
    finally:
        for process in processes:
            printed, _ = await process.communicate(b"")
            stalls += msgspec.json.decode(printed, type=list[Interval])


def overlaps(interval: Interval, stalls: list[Interval]) -> bool:
    """Return whether a stall overlaps this interval."""
    begin, end = interval
    return any(begin < stall_end and stall_begin < end for stall_begin, stall_end in stalls)


def watch(core: int) -> list[Interval]:
    """Sleep on this core until standard input is closed; return the stalls."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    stalls: list[Interval] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        asleep_at = time.perf_counter()
        time.sleep(SLEEP_SECONDS)
        woken_at = time.perf_counter()
        if woken_at - asleep_at > SLEEP_SECONDS + LATE_SECONDS_MIN:
            stalls.append((asleep_at, woken_at))
    return stalls


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(watch(int(sys.argv[1]))))
