"""The log: one JSON object per line, whoever logs."""

import json
import logging

import pytest

from ousel.database.retries import TransientFailure
from ousel.http.refusals import log_if_failure
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.ids import handle_of, new_secret
from ousel.kernel.logs import EventLogger
from ousel.observation.logs import JsonFormatter, LineHandler
from tests.support.logs import captured_logs


def test_a_line_has_the_event_and_its_facts() -> None:
    """Values that JSON does not know are described."""
    with captured_logs() as lines:
        EventLogger().warning("100 % full", disk="/var", kinds={"a"})

    [line] = lines
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "100 % full", "level": "warning", "disk": "/var", "kinds": "{'a'}"}


def test_an_exception_is_logged_with_its_traceback() -> None:
    """The traceback is part of the line."""
    with captured_logs() as lines:
        try:
            int("a defect")
        except ValueError:
            EventLogger().exception("it failed")

    [line] = lines
    assert (line["event"], line["level"]) == ("it failed", "error")
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("'a defect'")


def test_a_secret_is_cut_down_to_its_handle() -> None:
    """Even if it is in the middle of a text."""
    secret = new_secret("sk_test_")
    with captured_logs() as lines:
        EventLogger().error("refused", path=f"/x/{secret}/y")

    assert lines[0]["path"] == f"/x/{handle_of(secret)}.../y"


def test_the_line_of_a_failure_names_its_first_cause() -> None:
    """Not the failures of the attempts that it made fail, which only repeat the reason."""
    failure = TransientFailure(DatabaseUnavailable("PostgreSQL cannot be reached."))
    failure.__cause__ = ConnectionRefusedError("Connect call failed")
    failure.refusal.__cause__ = failure
    with captured_logs() as lines:
        log_if_failure(failure.refusal, "req_1")

    assert lines[0]["reason"] == "PostgreSQL cannot be reached."
    assert lines[0]["cause"] == "ConnectionRefusedError('Connect call failed')"


def test_a_line_of_a_library_looks_the_same() -> None:
    """It has an event, a level and a time."""
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "slow: %s", ("task",), None)

    line = json.loads(JsonFormatter().format(record))

    assert (line["event"], line["level"]) == ("slow: task", "error")
    assert line.keys() == {"event", "level", "timestamp"}


def test_an_event_that_cannot_be_formatted_stops_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nothing of it is shown: it may contain a secret."""
    secret = new_secret("sk_test_")
    record = logging.LogRecord("library", logging.WARNING, "", 0, "%d", (secret,), None)

    LineHandler().handle(record)

    line = json.loads(capfd.readouterr().err)
    assert (line["event"], line["logger"]) == ("an event could not be logged", "library")
    assert secret not in str(line)
