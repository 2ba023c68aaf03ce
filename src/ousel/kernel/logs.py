"""Log events: a sentence with named facts, which the standard library's logging hands on."""

import logging
import sys
from typing import Final

LOGGER_NAME: Final = "ousel"


class EventLogger:
    """Logs events; each is a sentence, with facts that have names."""

    def __init__(self) -> None:
        """Log as Ousel itself, not as one of its libraries."""
        self._logger = logging.getLogger(LOGGER_NAME)

    def debug(self, event: str, /, **facts: object) -> None:
        """Log what helps only to find a defect."""
        self._logger.debug(event, extra={"facts": facts})

    def info(self, event: str, /, **facts: object) -> None:
        """Log what an operator may want to know."""
        self._logger.info(event, extra={"facts": facts})

    def warning(self, event: str, /, **facts: object) -> None:
        """Log what an operator should know."""
        self._logger.warning(event, extra={"facts": facts})

    def error(self, event: str, /, **facts: object) -> None:
        """Log what an operator must act on."""
        self._logger.error(event, extra={"facts": facts})

    def exception(self, event: str, /, **facts: object) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        self._logger.error(event, exc_info=sys.exc_info(), extra={"facts": facts})
