"""Figures that tests measure; a line of them is printed at the end of all tests."""

from collections.abc import Callable

Figure = Callable[[str], None]
