"""Logs: one JSON object per line on standard error, from Ousel and its libraries alike."""

import json
import logging

from typing_extensions import override

from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.kernel.ids import without_secrets
from ousel.observation.log_output import LogOutput


class JsonFormatter(logging.Formatter):
    """Formats an event as JSON; of a secret that was logged by mistake, only the handle remains."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = getattr(record, "facts", {}) | {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": _moment_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(line, default=repr))


class LineHandler(logging.Handler):
    """Writes each event as a line to standard error."""

    def __init__(self) -> None:
        """Write to the standard error of this moment."""
        super().__init__()
        self._output = LogOutput()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._output.write(f"{self.format(record)}\n".encode())
        except Exception as error:  # noqa: BLE001 - whoever logs must not fail because of it
            # Nothing of the event itself, which may contain a secret.
            line = {
                "event": "an event could not be logged",
                "level": "warning",
                "timestamp": _moment_of(record),
                "logger": record.name,
                "error": type(error).__name__,
            }
            self._output.write(f"{json.dumps(line)}\n".encode())


def _moment_of(record: logging.LogRecord) -> str:
    return timestamp(int(record.created * MICROS_PER_SECOND))


def log_to_standard_error(level: str) -> None:
    """Set logging up for this process."""
    handler = LineHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
