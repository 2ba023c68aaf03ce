"""Run simulations: `python -m tests.simulation --seeds 1-1000`."""

import argparse
import sys
import time

from tests.simulation.planted_bugs import PLANTED_BUGS
from tests.simulation.world import REQUESTS, simulate

PROGRESS_SEEDS = 100


def main() -> int:
    """Run the seeds of the command line, up to the first one that breaks a rule; print it."""
    arguments = _arguments()
    planted = PLANTED_BUGS[arguments.plant].patches() if arguments.plant else []
    started, requests, seeds = time.process_time(), 0, 0
    for seed in arguments.seeds:
        result = simulate(seed, *planted, requests=arguments.requests)
        requests += result.requests
        seeds += 1
        if arguments.digest:
            print(seed, result.trace.digest())
        if result.violation is not None:
            print(result.report(None if arguments.trace else 60))
            return 1
        if arguments.trace:
            print(*result.trace.lines(), sep="\n")
        if seeds % PROGRESS_SEEDS == 0:
            print(f"{seeds} seeds, {requests} requests so far", file=sys.stderr)
    seconds = time.process_time() - started
    if not arguments.digest:
        rate = requests / seconds
        print(f"{seeds} seeds, {requests} requests, no violation; {rate:.0f} requests per second")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(1, 101), help="one, or first-last")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests for each seed")
    parser.add_argument("--plant", choices=PLANTED_BUGS, help="plant this bug first")
    parser.add_argument("--trace", action="store_true", help="print every step")
    parser.add_argument("--digest", action="store_true", help="print a hash of each seed's steps")
    return parser.parse_args()


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main())
