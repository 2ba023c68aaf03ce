"""Proxies that the environment names, which must not be used to reach servers on this machine."""

import os
from typing import Final

_THIS_MACHINE: Final = "127.0.0.1,localhost,::1"


def bypass_proxies_on_this_machine() -> None:
    """Let this process and those that it starts reach servers on this machine directly."""
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if others == "*":  # no proxy at all; a longer value would no longer mean that
        return
    exempt = f"{others},{_THIS_MACHINE}" if others else _THIS_MACHINE
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = exempt
