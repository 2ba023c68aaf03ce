"""Settings: each read from its variable, with a default and a rule that an error names."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from ousel.app.ousel import Ousel
from ousel.kernel.settings import (
    PAGE_SEGMENTS,
    RateLimit,
    SettingError,
    Settings,
    settings_from,
)

VARIABLES = (
    "OUSEL_BASE_URL",
    "OUSEL_PORTAL_URL",
    "OUSEL_DATABASE_URL",
    "OUSEL_RATE_LIMIT",
    "OUSEL_QUEUE_LIMIT",
    "OUSEL_DEADLINE_SECONDS",
    "OUSEL_TRUSTED_PROXIES",
    "OUSEL_LOG_LEVEL",
    "OUSEL_REQUEST_LOG",
    "OUSEL_ADMIN_HOST",
    "OUSEL_ADMIN_PORT",
    "OUSEL_TRACING",
    "OUSEL_MAIL_URL",
    "OUSEL_MAIL_FROM",
    "OUSEL_CONFIRM_SENDING_OVER",
    "OUSEL_SANDBOX",
)


def test_an_empty_environment_gives_the_defaults() -> None:
    """Nothing set, or set to nothing: every default, and they are those that are documented."""
    defaults = settings_from({})

    assert defaults == Settings()
    assert defaults.base_url == "http://127.0.0.1:8000/v1"
    assert defaults.portal_url == "http://127.0.0.1:8000"
    assert defaults.database_url == "sqlite:///ousel.db"
    assert defaults.rate_limit == RateLimit(100, 1)
    assert defaults.queue_limit == 10_000
    assert defaults.deadline_seconds == 30
    assert [str(proxy) for proxy in defaults.trusted_proxies] == ["127.0.0.1/32", "::1/128"]
    assert defaults.log_level == "info"
    assert not defaults.request_log
    assert defaults.admin_host == "127.0.0.1"
    assert defaults.admin_port is None
    assert not defaults.tracing
    assert defaults.mail_url is None
    assert defaults.mail_from is None
    assert not defaults.sandbox
    assert settings_from(dict.fromkeys(VARIABLES, "")) == defaults


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument the settings are those of the process."""
    monkeypatch.setenv("OUSEL_QUEUE_LIMIT", "77")

    assert settings_from().queue_limit == 77


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("OUSEL_BASE_URL", "https://api.example.com/v1", "base_url", "https://api.example.com/v1"),
        ("OUSEL_BASE_URL", "https://api.example.com/v1/", "base_url", "https://api.example.com/v1"),
        ("OUSEL_BASE_URL", "http://[::1]:9000/v1", "base_url", "http://[::1]:9000/v1"),
        ("OUSEL_BASE_URL", "https://Api.Example:443/V1", "base_url", "https://api.example/V1"),
        (
            "OUSEL_BASE_URL",
            "https://api.example/ousel/pay",
            "base_url",
            "https://api.example/ousel/pay",
        ),
        ("OUSEL_PORTAL_URL", "https://pay.example.com", "portal_url", "https://pay.example.com"),
        ("OUSEL_PORTAL_URL", "HTTPS://pay.example.com", "portal_url", "https://pay.example.com"),
        ("OUSEL_PORTAL_URL", "https://pay.example.com/", "portal_url", "https://pay.example.com"),
        ("OUSEL_PORTAL_URL", "http://[::1]:9000/", "portal_url", "http://[::1]:9000"),
        ("OUSEL_PORTAL_URL", "https://Pay.Example:443", "portal_url", "https://pay.example"),
        ("OUSEL_PORTAL_URL", "https://pay.example:80", "portal_url", "https://pay.example:80"),
        ("OUSEL_PORTAL_URL", "http://[::A]:80", "portal_url", "http://[::a]"),
        ("OUSEL_DATABASE_URL", "postgresql://db/ousel", "database_url", "postgresql://db/ousel"),
        ("OUSEL_RATE_LIMIT", "off", "rate_limit", None),
        ("OUSEL_RATE_LIMIT", "9/hour", "rate_limit", RateLimit(9, 3600)),
        ("OUSEL_RATE_LIMIT", "600/minute", "rate_limit", RateLimit(600, 60)),
        ("OUSEL_RATE_LIMIT", "250/second", "rate_limit", RateLimit(250, 1)),
        ("OUSEL_QUEUE_LIMIT", "1", "queue_limit", 1),
        ("OUSEL_QUEUE_LIMIT", "1000000", "queue_limit", 1_000_000),
        ("OUSEL_DEADLINE_SECONDS", "1", "deadline_seconds", 1),
        ("OUSEL_CONFIRM_SENDING_OVER", "0", "confirm_sending_over", 0),
        ("OUSEL_CONFIRM_SENDING_OVER", "99.50", "confirm_sending_over", 99_500_000),
        ("OUSEL_CONFIRM_SENDING_OVER", "off", "confirm_sending_over", None),
        ("OUSEL_TRUSTED_PROXIES", "10.0.0.0/8", "trusted_proxies", (ip_network("10.0.0.0/8"),)),
        ("OUSEL_LOG_LEVEL", "debug", "log_level", "debug"),
        ("OUSEL_LOG_LEVEL", "error", "log_level", "error"),
        ("OUSEL_REQUEST_LOG", "true", "request_log", True),
        ("OUSEL_ADMIN_HOST", "::1", "admin_host", "::1"),
        ("OUSEL_ADMIN_PORT", "off", "admin_port", None),
        ("OUSEL_ADMIN_PORT", "9464", "admin_port", 9464),
        ("OUSEL_ADMIN_PORT", "65535", "admin_port", 65_535),
        ("OUSEL_TRACING", "true", "tracing", True),
        ("OUSEL_SANDBOX", "true", "sandbox", True),
        ("OUSEL_SANDBOX", "false", "sandbox", False),
    ],
)
def test_a_good_value_is_used(variable: str, text: str, field: str, value: object) -> None:
    """A variable changes its own setting and no other."""
    found = settings_from({variable: text})

    assert getattr(found, field) == value
    others = set(Settings.__struct_fields__) - {field}
    assert all(getattr(found, other) == getattr(Settings(), other) for other in others)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OUSEL_BASE_URL", "api.example.com"),
        ("OUSEL_BASE_URL", "ftp://api.example.com"),
        ("OUSEL_BASE_URL", "https://name:secret@api.example.com/v1"),
        ("OUSEL_BASE_URL", "https://api.example.com/{version}"),
        ("OUSEL_BASE_URL", "https://"),
        ("OUSEL_BASE_URL", "https://api.example.com/v1?key=1"),
        ("OUSEL_BASE_URL", "https://api.example.com/v1?"),
        ("OUSEL_BASE_URL", "https://api.example.com/v1#top"),
        ("OUSEL_BASE_URL", "http://[::1"),
        ("OUSEL_BASE_URL", "http://host:port"),
        ("OUSEL_BASE_URL", "http://host:99999"),
        ("OUSEL_BASE_URL", "http://my host"),
        ("OUSEL_BASE_URL", "https://b\u00fccher.example/v1"),
        ("OUSEL_BASE_URL", "https://api.example.com/apps"),
        ("OUSEL_BASE_URL", "https://api.example.com/pay/v1"),
        ("OUSEL_PORTAL_URL", "/pay"),
        ("OUSEL_PORTAL_URL", "http://[::1"),
        ("OUSEL_PORTAL_URL", "https://b\u00fccher.example"),
        ("OUSEL_PORTAL_URL", "https://pay.example.com/portal"),
        ("OUSEL_PORTAL_URL", "https://pay.example.com/portal/"),
        ("OUSEL_RATE_LIMIT", "100"),
        ("OUSEL_RATE_LIMIT", "0/second"),
        ("OUSEL_RATE_LIMIT", "-1/second"),
        ("OUSEL_RATE_LIMIT", "100/day"),
        ("OUSEL_RATE_LIMIT", "1.5/second"),
        ("OUSEL_RATE_LIMIT", "9999999999/second"),
        ("OUSEL_RATE_LIMIT", "OFF"),
        ("OUSEL_RATE_LIMIT", "\u0661/second"),
        ("OUSEL_QUEUE_LIMIT", "0"),
        ("OUSEL_DEADLINE_SECONDS", "0"),
        ("OUSEL_DEADLINE_SECONDS", "31"),
        ("OUSEL_QUEUE_LIMIT", "-5"),
        ("OUSEL_QUEUE_LIMIT", "1000001"),
        ("OUSEL_QUEUE_LIMIT", "1e3"),
        ("OUSEL_QUEUE_LIMIT", "many"),
        ("OUSEL_QUEUE_LIMIT", "\u0663"),
        ("OUSEL_QUEUE_LIMIT", "9" * 5_000),
        ("OUSEL_TRUSTED_PROXIES", "proxy.example.com"),
        ("OUSEL_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("OUSEL_TRUSTED_PROXIES", "127.0.0.1,"),
        ("OUSEL_LOG_LEVEL", "INFO"),
        ("OUSEL_LOG_LEVEL", "verbose"),
        ("OUSEL_REQUEST_LOG", "on"),
        ("OUSEL_ADMIN_PORT", "0"),
        ("OUSEL_ADMIN_PORT", "65536"),
        ("OUSEL_ADMIN_PORT", "-1"),
        ("OUSEL_ADMIN_PORT", "OFF"),
        ("OUSEL_ADMIN_PORT", "\u0663"),
        ("OUSEL_ADMIN_PORT", "9" * 5_000),
        ("OUSEL_TRACING", "otlp"),
        ("OUSEL_CONFIRM_SENDING_OVER", "-1"),
        ("OUSEL_CONFIRM_SENDING_OVER", "1,000"),
        ("OUSEL_CONFIRM_SENDING_OVER", "1000 OUSD"),
        ("OUSEL_CONFIRM_SENDING_OVER", "0.0000001"),
        ("OUSEL_CONFIRM_SENDING_OVER", "\u0663"),
        ("OUSEL_SECRET_FILE", "/.."),
        ("OUSEL_LOG_KEY_FILE", "."),
        ("OUSEL_LOG_CHECKPOINT_FILE", "./"),
        ("OUSEL_SANDBOX", "yes"),
        ("OUSEL_SANDBOX", "1"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(variable: str, text: str) -> None:
    """A value that breaks its rule stops the start, and the error names variable and rule."""
    with pytest.raises(SettingError, match=f"^{variable} must be .+\\.$"):
        settings_from({variable: text})


def test_every_path_outside_the_api_is_kept_free() -> None:
    """A new page must be named among the paths that an API's address must not begin with."""
    settings = Settings(database_url="unopened.db", sandbox=True)

    paths = {route.path for route in Ousel(settings).routes}

    outside = {path for path in paths if not path.startswith(f"{settings.base_path}/")}
    assert {path.split("/")[1] for path in outside} == {"", *PAGE_SEGMENTS}


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("https://api.example.com/v1", "/v1"),
        ("https://api.example.com/ousel/v1", "/ousel/v1"),
        ("https://api.example.com", ""),
    ],
)
def test_the_base_path_is_that_of_the_base_url(base_url: str, path: str) -> None:
    """Every endpoint begins with the base address's own path."""
    assert Settings(base_url=base_url).base_path == path


def test_a_sandbox_has_secrets_of_its_own_kind() -> None:
    """A live server's secrets say live, a sandbox's say test."""
    assert Settings().mode == "live"
    assert Settings(sandbox=True).mode == "test"


def test_a_secret_is_read_from_a_file(tmp_path: Path) -> None:
    """With _FILE after its name, a variable names a file; space around the secret is left out."""
    file = tmp_path / "database_url"
    file.write_text("postgresql://ousel:geheim@db/ousel\n")

    found = settings_from({"OUSEL_DATABASE_URL_FILE": str(file)})

    assert found.database_url == "postgresql://ousel:geheim@db/ousel"
    assert settings_from({"OUSEL_DATABASE_URL_FILE": ""}) == Settings()


def test_a_secret_given_in_both_ways_is_refused(tmp_path: Path) -> None:
    """Which of the two is meant is not guessed; neither is told."""
    file = tmp_path / "database_url"
    file.write_text("postgresql://ousel:geheim@db/ousel")
    both = {"OUSEL_DATABASE_URL": "other-geheim.db", "OUSEL_DATABASE_URL_FILE": str(file)}

    with pytest.raises(SettingError) as refused:
        settings_from(both)

    assert str(refused.value) == (
        "OUSEL_DATABASE_URL and OUSEL_DATABASE_URL_FILE are both set: set one of them."
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"", "names an empty file."),
        (b" \n", "names an empty file."),
        (b"\xff\xfe", "cannot be read: it is not text in UTF-8."),
    ],
)
def test_a_secrets_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    """The error names the variable and the reason, never what stands in the file."""
    file = tmp_path / "database_url"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingError) as refused:
        settings_from({"OUSEL_DATABASE_URL_FILE": str(file)})

    assert str(refused.value) == f"OUSEL_DATABASE_URL_FILE {says}"
