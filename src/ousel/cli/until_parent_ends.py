"""Runs a Python file until it ends, or until the process that started it has ended.

The parent holds the other end of standard input, and writes nothing to it. Even if the parent is
killed, the system closes that end, and this process notices it.
"""

import os
import runpy
import sys
import threading


def _end_with_the_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    runpy.run_path(sys.argv[1], run_name="__main__")
