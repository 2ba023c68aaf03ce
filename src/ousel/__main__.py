"""Makes `python -m ousel` run the `ousel` command."""

from ousel.cli import main

main()
