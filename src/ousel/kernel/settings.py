"""Settings: read once from the environment; each has a default and a rule."""

import os
import re
from collections.abc import Mapping
from email.utils import getaddresses
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from ousel.kernel.errors import InvalidAmount, OperatorError
from ousel.kernel.files import reason_of
from ousel.kernel.mail_servers import mail_server_at
from ousel.kernel.money import MICROS_PER_UNIT, micros_from_json
from ousel.kernel.urls import network_location

PORT_DEFAULT: Final = 8000
DATABASE_DEFAULT: Final = "sqlite:///ousel.db"
PROXIES_DEFAULT: Final = "127.0.0.1, ::1"
COUNT_MAX: Final = 1_000_000
CONFIRM_SENDING_OVER_DEFAULT: Final = 1_000
DEADLINE_SECONDS_MAX: Final = 30  # the documentation relies on it: see docs/how-to/retry-safely.md
PORT_MAX: Final = 65_535
# The first segments of all paths that do not belong to the API. A test compares them with the
# routes.
PAGE_SEGMENTS: Final = frozenset(
    {
        *(".well-known", "activity", "activity.csv", "apps", "assets", "confirm-identity"),
        *("connect", "connections", "docs", "forgot", "healthz", "log", "login", "logout", "pay"),
        *("readyz", "reset", "sandbox", "send", "settings", "signup", "verify", "verify-email"),
    }
)
NAMES_OF_FOLDERS: Final = {"", ".."}  # the last part of paths such as "/", "." and "/var/.."
PREFIX: Final = "OUSEL_"  # of the variables
FILE_SUFFIX: Final = "_FILE"  # OUSEL_X_FILE names a file that holds the value of OUSEL_X
SECRET_SETTINGS: Final = frozenset({"OUSEL_DATABASE_URL", "OUSEL_MAIL_URL"})  # may be in files

_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour)", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_MAIL_FROM: Final = re.compile(r"[!-;=?-~]+@[0-9A-Za-z.-]+", re.ASCII)
_PERIOD_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600}


Network = IPv4Network | IPv6Network


class SettingError(OperatorError, ValueError):
    """A setting is not valid; the message names the variable and the rule."""


class RateLimit(msgspec.Struct, frozen=True):
    """A number of requests per period."""

    requests: int
    period_seconds: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an operator can set."""

    base_url: str = f"http://127.0.0.1:{PORT_DEFAULT}/v1"
    portal_url: str = f"http://127.0.0.1:{PORT_DEFAULT}"
    database_url: str = DATABASE_DEFAULT
    rate_limit: RateLimit | None = RateLimit(100, 1)
    queue_limit: int = 10_000
    deadline_seconds: int = DEADLINE_SECONDS_MAX
    trusted_proxies: tuple[Network, ...] = tuple(map(ip_network, PROXIES_DEFAULT.split(", ")))
    log_level: str = "info"
    request_log: bool = False
    admin_host: str = "127.0.0.1"
    admin_port: int | None = None
    tracing: bool = False
    mail_url: str | None = None
    mail_from: str | None = None
    secret_file: Path | None = None
    confirm_sending_over: int | None = CONFIRM_SENDING_OVER_DEFAULT * MICROS_PER_UNIT
    log_key_file: Path | None = None
    log_checkpoint_file: Path | None = None
    witnesses: str | None = None
    sandbox: bool = False

    @property
    def base_path(self) -> str:
        """The path that every API endpoint begins with, such as /v1."""
        return urlsplit(self.base_url).path.rstrip("/")

    @property
    def mode(self) -> str:
        """The mode of this server, and of its keys and tokens: live, or test in a sandbox."""
        return "test" if self.sandbox else "live"


def settings_from(
    environment: Mapping[str, str] = os.environ, port: int = PORT_DEFAULT
) -> Settings:
    """Return the settings of this environment, or raise SettingError.

    URLs default to this machine and this port.
    """
    default = Settings()
    mail_url = _mail_url(environment)
    origin = f"http://127.0.0.1:{port}"
    return Settings(
        base_url=_api_root(environment, "OUSEL_BASE_URL", f"{origin}/v1"),
        portal_url=_root(environment, "OUSEL_PORTAL_URL", origin),
        database_url=_secret(environment, "OUSEL_DATABASE_URL") or default.database_url,
        rate_limit=_rate_limit(environment.get("OUSEL_RATE_LIMIT") or "100/second"),
        queue_limit=_count(environment, "OUSEL_QUEUE_LIMIT", default.queue_limit),
        deadline_seconds=_count(
            environment, "OUSEL_DEADLINE_SECONDS", default.deadline_seconds, DEADLINE_SECONDS_MAX
        ),
        trusted_proxies=_networks(environment.get("OUSEL_TRUSTED_PROXIES") or PROXIES_DEFAULT),
        log_level=_log_level(environment.get("OUSEL_LOG_LEVEL") or default.log_level),
        request_log=_switch(environment, "OUSEL_REQUEST_LOG"),
        admin_host=environment.get("OUSEL_ADMIN_HOST") or default.admin_host,
        admin_port=_port(environment.get("OUSEL_ADMIN_PORT") or "off"),
        tracing=_switch(environment, "OUSEL_TRACING"),
        mail_url=mail_url,
        mail_from=_mail_from(environment.get("OUSEL_MAIL_FROM") or "off", mail_url),
        secret_file=_path_or_off(environment, "OUSEL_SECRET_FILE"),
        confirm_sending_over=_amount_or_off(
            environment, "OUSEL_CONFIRM_SENDING_OVER", CONFIRM_SENDING_OVER_DEFAULT
        ),
        log_key_file=_path_or_off(environment, "OUSEL_LOG_KEY_FILE"),
        log_checkpoint_file=_path_or_off(environment, "OUSEL_LOG_CHECKPOINT_FILE"),
        witnesses=_text_or_off(environment, "OUSEL_WITNESSES"),
        sandbox=_switch(environment, "OUSEL_SANDBOX"),
    )


def setting_names() -> set[str]:
    """Return the variables that are settings, or name the file of one."""
    names = {f"{PREFIX}{field.upper()}" for field in Settings.__struct_fields__}
    return names | {name + FILE_SUFFIX for name in SECRET_SETTINGS}


def _secret(environment: Mapping[str, str], name: str) -> str | None:
    """Return a setting that may hold a secret, from the environment or from a file.

    File permissions protect a file; the environment is visible to anyone who can inspect the
    process.
    """
    file = environment.get(f"{name}{FILE_SUFFIX}")
    if not file:
        return environment.get(name)
    if environment.get(name):
        raise SettingError(f"{name} and {name}{FILE_SUFFIX} are both set: set one of them.")
    try:
        text = Path(file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise SettingError(f"{name}{FILE_SUFFIX} cannot be read: {reason_of(error)}.") from None
    if not text:
        raise SettingError(f"{name}{FILE_SUFFIX} names an empty file.")
    return text


def _path_or_off(environment: Mapping[str, str], name: str) -> Path | None:
    text = _text_or_off(environment, name)
    if text is None:
        return None
    path = Path(text)
    if path.name in NAMES_OF_FOLDERS:
        raise SettingError(f"{name} must be off, or the path of a file.")
    return path


def _text_or_off(environment: Mapping[str, str], name: str) -> str | None:
    text = environment.get(name) or "off"
    return None if text == "off" else text


def _mail_url(environment: Mapping[str, str]) -> str | None:
    url = _secret(environment, "OUSEL_MAIL_URL") or "off"
    if url == "off":
        return None
    try:
        mail_server_at(url)
    except ValueError:
        raise SettingError(
            "OUSEL_MAIL_URL must be off, or an address such as"
            " smtp://user:password@mail.example:587 or smtps://user:password@mail.example,"
            " with a user and a password in ASCII."
        ) from None
    return url


def _mail_from(text: str, mail_url: str | None) -> str | None:
    sender = None if text == "off" else text
    if sender is None and mail_url is not None:
        raise SettingError("OUSEL_MAIL_FROM must be set, because OUSEL_MAIL_URL is.")
    if sender is None:
        return None
    addresses = [address for _, address in getaddresses([sender])]
    is_one = len(addresses) == 1 and _MAIL_FROM.fullmatch(addresses[0])
    if not sender.isprintable() or not is_one:
        raise SettingError(
            "OUSEL_MAIL_FROM must be off, or an address such as Ousel <pay@example.com>."
        )
    return sender


def _url(environment: Mapping[str, str], name: str, default: str) -> str:
    url = (environment.get(name) or default).rstrip("/")
    if not _is_plain_address(url):
        raise SettingError(
            f"{name} must be an http or https address without credentials, query or fragment."
            " It must be in ASCII: write other letters of a host as browsers do, with xn--."
        )
    return _as_browsers_write(urlsplit(url))


def _as_browsers_write(parts: SplitResult) -> str:
    """Return the address with its scheme and host in lower case, without a standard port.

    Callers compare it with addresses that come from browsers.
    """
    return parts._replace(netloc=network_location(parts.hostname or "", parts)).geturl()


def _api_root(environment: Mapping[str, str], name: str, default: str) -> str:
    url = _url(environment, name, default)
    first_segment = urlsplit(url).path[1:].partition("/")[0]
    if first_segment in PAGE_SEGMENTS:
        raise SettingError(
            f"{name} must be an address whose path does not begin like that of a page, such as"
            " /pay."
        )
    return url


def _root(environment: Mapping[str, str], name: str, default: str) -> str:
    url = _url(environment, name, default)
    if urlsplit(url).path:
        raise SettingError(
            f"{name} must be an address without a path: pages are served at its root."
        )
    return url


def _is_plain_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        reachable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or bracket
        return False
    is_plain = url.isascii() and not set(url) & set("?# @{}")
    return reachable and parts.scheme in {"http", "https"} and is_plain


def _rate_limit(text: str) -> RateLimit | None:
    if text == "off":
        return None
    rate = _RATE.fullmatch(text)
    if rate is None:
        raise SettingError("OUSEL_RATE_LIMIT must be off, or a rate such as 100/second or 9/hour.")
    return RateLimit(int(rate[1]), _PERIOD_SECONDS[rate[2]])


def _count(
    environment: Mapping[str, str], name: str, default: int, maximum: int = COUNT_MAX
) -> int:
    number = _number(environment.get(name) or str(default), maximum)
    if number is None:
        raise SettingError(f"{name} must be a whole number from 1 to {maximum}.")
    return number


def _number(text: str, maximum: int) -> int | None:
    """Return the number from 1 to the maximum that the text is, or None."""
    number = int(text) if _DIGITS.fullmatch(text) else 0
    return number if 1 <= number <= maximum else None


def _amount_or_off(environment: Mapping[str, str], name: str, default: int) -> int | None:
    text = environment.get(name) or str(default)
    if text in {"off", "0"}:
        return None if text == "off" else 0
    try:
        return micros_from_json(text.encode())
    except InvalidAmount:
        raise SettingError(f"{name} must be off, 0, or an amount such as 1000 or 99.50.") from None


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(","))
    except ValueError:
        raise SettingError(
            "OUSEL_TRUSTED_PROXIES must be addresses or networks, like 127.0.0.1, 10.0.0.0/8."
        ) from None


def _port(text: str) -> int | None:
    if text == "off":
        return None
    port = _number(text, PORT_MAX)
    if port is None:
        raise SettingError(f"OUSEL_ADMIN_PORT must be off, or a port from 1 to {PORT_MAX}.")
    return port


def _log_level(text: str) -> str:
    if text not in {"debug", "info", "warning", "error"}:
        raise SettingError("OUSEL_LOG_LEVEL must be debug, info, warning or error.")
    return text


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name) or "false"
    if text not in {"true", "false"}:
        raise SettingError(f"{name} must be true or false.")
    return text == "true"
