"""Cases for parsers: noise, and texts that are put together from what a parser looks for.

The quick tests let Hypothesis choose the cases, and find the smallest that fails. `make fuzz` tries
more than a million, which plain chance puts together a hundred times as fast.
"""

import inspect
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.kernel.errors import Refusal

FULL = os.environ.get("OUSEL_FUZZ") == "full"
CASE_SECONDS_MAX = 0.5  # of processor time: nothing that somebody sends may keep us busy
NOISE_MAX = 60
DEPTH_MAX = 3

Test = Callable[..., None]


class Source(msgspec.Struct, frozen=True):
    """A source of cases: a Hypothesis strategy, or a random generator."""

    strategy: st.SearchStrategy[Any]
    draw: Callable[[random.Random], Any]

    def __or__(self, other: "Source") -> "Source":
        """Return a source of cases of both."""
        sources = (self, other)
        return Source(
            self.strategy | other.strategy, lambda chance: chance.choice(sources).draw(chance)
        )

    def map(self, change: Callable[[Any], Any]) -> "Source":
        """Return a source whose cases are changed by this function."""
        return Source(self.strategy.map(change), lambda chance: change(self.draw(chance)))


def made_of(*pieces: bytes, length: int = 24) -> Source:
    """Return texts of these pieces, with a little noise between them, and noise alone."""
    piece = st.sampled_from(pieces) | st.binary(max_size=2)

    def draw(chance: random.Random) -> bytes:
        if not chance.randrange(8):
            return chance.randbytes(chance.randrange(NOISE_MAX))
        chosen = chance.choices(pieces, k=chance.randrange(length + 1))
        if chosen and chance.randrange(2):
            chosen[chance.randrange(len(chosen))] = chance.randbytes(chance.randrange(1, 3))
        return b"".join(chosen)

    strategy = st.lists(piece, max_size=length).map(b"".join) | st.binary(max_size=NOISE_MAX)
    return Source(strategy, draw)


def texts_of(*pieces: str, length: int = 24) -> Source:
    """Return the same for texts, with any characters in between."""
    piece = st.sampled_from(pieces) | st.text(max_size=2)

    def draw(chance: random.Random) -> str:
        chosen = chance.choices(pieces, k=chance.randrange(length + 1))
        if not chosen or chance.randrange(2):
            chosen.insert(chance.randrange(len(chosen) + 1), _character(chance))
        return "".join(chosen)

    strategy = st.lists(piece, max_size=length).map("".join) | st.text(max_size=NOISE_MAX)
    return Source(strategy, draw)


def near(*texts: str) -> Source:
    """Return these texts, each with a few characters changed, taken out or put in."""
    edit = st.tuples(st.integers(0, 999), st.integers(0, 2), st.characters(codec="utf-8"))
    strategy = st.builds(_edited, st.sampled_from(texts), st.lists(edit, max_size=3))

    def draw(chance: random.Random) -> str:
        edits = [
            (chance.randrange(1_000), chance.randrange(3), _character(chance))
            for _ in range(chance.randrange(4))
        ]
        return _edited(chance.choice(texts), edits)

    return Source(strategy, draw)


def near_bytes(*texts: str) -> Source:
    """Return the same as bytes."""
    return near(*texts).map(str.encode)


def one_of(*values: Any) -> Source:
    """Return one of these values."""
    return Source(st.sampled_from(values), lambda chance: chance.choice(values))


def whole_numbers(least: int, most: int) -> Source:
    """Return whole numbers of any size between the two."""
    return Source(
        st.integers(least, most),
        lambda chance: max(least, chance.getrandbits(chance.randrange(1, most.bit_length()))),
    )


def values() -> Source:
    """Return what JSON can hold."""
    strategy = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    )
    return Source(strategy, _value)


def objects(*fields: str) -> Source:
    """Return JSON objects with some of these fields, whatever they hold."""
    strategy = st.dictionaries(st.sampled_from(fields), values().strategy, max_size=5)

    def draw(chance: random.Random) -> dict[str, Any]:
        chosen = chance.sample(fields, chance.randrange(6))
        return {field: _value(chance) for field in chosen}

    return Source(strategy, draw).map(msgspec.json.encode)


def lists_of(item: Source, most: int) -> Source:
    """Return short lists."""
    return Source(
        st.lists(item.strategy, max_size=most),
        lambda chance: [item.draw(chance) for _ in range(chance.randrange(most + 1))],
    )


def pairs_of(first: Source, second: Source) -> Source:
    """Return pairs."""
    return Source(
        st.tuples(first.strategy, second.strategy),
        lambda chance: (first.draw(chance), second.draw(chance)),
    )


def fuzzed(full_cases: int = 200_000, **sources: Source) -> Callable[[Test], Test]:
    """Return the decorator that runs a test on cases from these sources."""

    def decorated(check: Test) -> Test:
        if FULL:
            return _by_chance(check, sources, full_cases)
        strategies = {name: source.strategy for name, source in sources.items()}
        limited = settings(
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        return limited(given(**strategies)(check))

    return decorated


@contextmanager
def quickly() -> Iterator[None]:
    """Fail if a case takes much longer than it should."""
    started = time.process_time()
    try:
        yield
    finally:
        took = time.process_time() - started
        assert took < CASE_SECONDS_MAX, f"a case took {took:.1f} seconds"


@contextmanager
def refused_at_most() -> Iterator[None]:
    """Allow a case to be refused with a 4xx and a sentence, quickly."""
    with quickly():
        try:
            yield
        except Refusal as refusal:
            if not (400 <= refusal.status < 500 and refusal.detail):
                raise


def _by_chance(check: Test, sources: dict[str, Source], count: int) -> Test:
    wanted = inspect.signature(check)
    fixtures = [each for each in wanted.parameters.values() if each.name not in sources]

    def run(**given_fixtures: Any) -> None:
        record = given_fixtures.pop("record_property")
        chance = random.Random(secrets.randbits(64))
        started = time.perf_counter()
        for _ in range(count):
            case = {name: source.draw(chance) for name, source in sources.items()}
            try:
                check(**given_fixtures, **case)
            except BaseException as error:
                error.add_note(f"the case: {case!r}")
                raise
        seconds = time.perf_counter() - started
        record("figure", f"{check.__name__}: {count} cases in {seconds:.1f} s")

    reporter = inspect.Parameter("record_property", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([*fixtures, reporter])  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = check.__name__, check.__doc__
    return run


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for place, kept, character in edits:
        position = place % (len(text) + 1)
        between = character if kept else ""  # taken out, changed, or put in
        text = text[:position] + between + text[position + (kept < 2) :]
    return text


def _character(chance: random.Random) -> str:
    code = chance.choice((0x80, 0x800, 0x10000, 0x110000))
    character = chr(chance.randrange(code))
    return "\ufffd" if "\ud800" <= character <= "\udfff" else character


def _value(chance: random.Random, depth: int = 0) -> Any:
    if depth < DEPTH_MAX and not chance.randrange(4):
        if chance.randrange(2):
            return [_value(chance, depth + 1) for _ in range(chance.randrange(3))]
        return {_character(chance): _value(chance, depth + 1)}
    return chance.choice(
        (
            *(None, True, False, 0, 1, 25.5, 1e-7, 10**12, float("nan"), float("inf")),
            *("OUSD", "@ada", "https://a.example", "", "authorization_code"),
            chance.randrange(-(2**65), 2**65),
            chance.uniform(-1e300, 1e300),
            "".join(_character(chance) for _ in range(chance.randrange(20))),
        )
    )
