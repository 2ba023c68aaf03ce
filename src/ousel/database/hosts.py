"""The hosts that a PostgreSQL address names: one server, or the nodes of a cluster."""

import re
from typing import Final

_HOSTS: Final = re.compile(r"(postgres(?:ql)?://(?:[^/?#]*@)?)([^/?#]*)(.*)", re.DOTALL)


def to_primary(url: str) -> str:
    """Return an address that means, of several hosts, the one that takes writes."""
    if len(one_host_each(url)) == 1 or "target_session_attrs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}target_session_attrs=read-write"


def one_host_each(url: str) -> list[str]:
    """Return the address once for each host that it names, with that host alone."""
    parts = _HOSTS.fullmatch(url)
    if parts is None:
        return [url]
    before, hosts, after = parts.groups()
    return [f"{before}{host}{after}" for host in hosts.split(",")]
