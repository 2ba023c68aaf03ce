"""Logs: one JSON object per line on standard error, from Ousel and its libraries alike."""

import contextlib
import io
import json
import logging
import sys
from typing import TextIO, cast

from typing_extensions import override

from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.kernel.ids import without_secrets


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


class _StandardError(io.TextIOBase):
    """Standard error; a line that cannot be written, as on a full disk, is dropped."""

    @override
    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    @override
    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()


def log_to_standard_error(level: str) -> None:
    """Set logging up for this process."""
    handler = logging.StreamHandler(cast("TextIO", _StandardError()))
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
