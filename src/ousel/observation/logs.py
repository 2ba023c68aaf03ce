"""Logs: one JSON object per line on standard error, from Ousel and its libraries alike."""

import contextlib
import io
import logging
import sys
from typing import Final, TextIO, cast

import structlog
from typing_extensions import override

from ousel.kernel.ids import without_secrets

_SHARED: Final[list[structlog.typing.Processor]] = [
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]

_render: Final = structlog.processors.JSONRenderer()


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


def _render_without_secrets(logger: object, name: str, event: structlog.typing.EventDict) -> str:
    """Return the line of an event; a secret that was logged by mistake is cut down."""
    return without_secrets(str(_render(logger, name, event)))


def log_to_standard_error(level: str) -> None:
    """Set logging up for this process."""
    standard_error = cast("TextIO", _StandardError())
    structlog.configure(
        processors=[*_SHARED, _render_without_secrets],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=standard_error),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _render_without_secrets,
        ],
    )
    handler = logging.StreamHandler(standard_error)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
