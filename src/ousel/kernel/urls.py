"""The hosts and ports of URLs."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult

STANDARD_PORTS: Final = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def network_location(host: str, url: SplitResult) -> str:
    """Return the host with the port of the URL, as browsers write them.

    They write an IPv6 address shortly and in brackets, and leave out the standard port.
    """
    shown_host = f"[{_shortened(host)}]" if ":" in host else host
    if url.port in {None, STANDARD_PORTS[url.scheme]}:
        return shown_host
    return f"{shown_host}:{url.port}"


def _shortened(host: str) -> str:
    try:
        return ip_address(host).compressed
    except ValueError:  # Python before 3.11.4 lets a URL have any text in brackets
        return host
