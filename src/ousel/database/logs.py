"""The logger of this package."""

from typing import Any


class LazyLogger:
    """A logger that imports structlog when it first logs, so that commands start quickly."""

    def __getattr__(self, name: str) -> Any:
        """Return this method of structlog's logger."""
        import structlog

        return getattr(structlog.get_logger(), name)
