"""What Ousel logs during a test."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

from ousel.kernel.logs import LOGGER_NAME
from ousel.observation.logs import JsonFormatter


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, Any]] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@contextmanager
def captured_logs() -> Iterator[list[dict[str, Any]]]:
    """Yield the lines that are logged in this block, as a server would write them."""
    logger, handler = logging.getLogger(LOGGER_NAME), _Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
