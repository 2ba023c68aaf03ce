"""The hosts that a PostgreSQL address names: one server, or the nodes of a cluster."""

import os
import re
from typing import Final
from urllib.parse import parse_qsl

from ousel.kernel.settings import PORT_MAX, SettingError

_HOST: Final = r"(?:[^:,@/?#\[\]]*|\[[^\]/?#]*\])(?::[0-9]*)?"
# Groups: scheme, user, password, hosts with the database's name, options.
ADDRESS: Final = re.compile(
    r"(postgres(?:ql)?://)(?:([^:/?#@]*)(?::([^/?#@]*))?(?=@))?"
    rf"(@?{_HOST}(?:,{_HOST})*(?:/[^?#]*)?)(?:\?([^#]*))?"
)
_PORT: Final = re.compile(r":([0-9]+)(?=,|$)")
_HOSTS: Final = re.compile(r"(postgres(?:ql)?://(?:[^/?#]*@)?)([^/?#]*)(.*)", re.DOTALL)


def check_address(url: str) -> None:
    """Refuse an invalid address before anything tries to connect to it."""
    parts = ADDRESS.fullmatch(url)
    if parts is None or any(float(port) > PORT_MAX for port in _ports(parts[4])):
        raise SettingError(
            "The database's address (--database or OUSEL_DATABASE_URL) must be like"
            " postgresql://NAME:PASSWORD@HOST:PORT/DATABASE, with special characters in the name"
            " and the password escaped: # as %23, / as %2F, @ as %40."
        )
    if any("," in hosts for hosts in _hosts_elsewhere(parts[4], parts[5] or "")):
        raise SettingError(
            "The database's address (--database or OUSEL_DATABASE_URL) must have several hosts"
            " before the name of the database, like postgresql://NAME@HOST1,HOST2/DATABASE: there"
            " Ousel finds the one that accepts writes."
        )


def primary_url(url: str) -> str:
    """Return the address with the option that selects the host that accepts writes."""
    if len(single_host_urls(url)) == 1 or "target_session_attrs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}target_session_attrs=read-write"


def single_host_urls(url: str) -> list[str]:
    """Return one address for each host that this address names."""
    parts = _HOSTS.fullmatch(url)
    if parts is None:
        return [url]
    before, hosts, after = parts.groups()
    return [f"{before}{host}{after}" for host in hosts.split(",")]


def _hosts_elsewhere(hosts_and_name: str, options: str) -> list[str]:
    """Return the hosts that the drivers take from the options or from the environment."""
    hosts = [value for name, value in parse_qsl(options) if name == "host"]
    names_hosts = hosts_and_name.partition("/")[0] not in {"", "@"}
    return hosts if hosts or names_hosts else [os.environ.get("PGHOST", "")]


def _ports(hosts_and_name: str) -> list[str]:
    return _PORT.findall(hosts_and_name.partition("/")[0])
