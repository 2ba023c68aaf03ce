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
            "timestamp": timestamp(int(record.created * MICROS_PER_SECOND)),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(line, default=repr))


class _LineHandler(logging.Handler):
    """Writes each event as a line to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._output = LogOutput()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._output.write(f"{self.format(record)}\n".encode())
        except Exception:  # noqa: BLE001 - whoever logs must not fail because of it
            self.handleError(record)


def log_to_standard_error(level: str) -> None:
    """Set logging up for this process."""
    handler = _LineHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
