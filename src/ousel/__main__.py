"""Lets `python -m ousel` stand for the `ousel` command."""

from ousel.cli import main

main()
