"""The command line for operators."""

from ousel.cli.main import main

__all__ = ["main"]
