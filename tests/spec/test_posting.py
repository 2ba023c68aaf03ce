"""Posting, in every order that things can happen in: two processes, few intents, some faults."""

from collections.abc import Callable

import pytest

from tests.faults.sizes import sized
from tests.spec.explorer import Explored, explore
from tests.spec.posting import PostingModel
from tests.spec.properties import Properties
from tests.spec.world import Design, Intent, Setting, beginning

Figure = Callable[[str, object], None]

# One key at two processes at once, and a rival for the same money: one of the two is refused.
RIVALS = Setting(
    intents=(
        Intent("ada", "bob", 6, "k"),
        Intent("ada", "bob", 6, "k"),
        Intent("ada", "bob", 6, "other"),
    ),
    balances={"ada": 10, "bob": 0},
    faults=sized(1, 2),
)
# One key at two processes, and money for both.
TWINS = Setting(intents=RIVALS.intents[:2], balances={"ada": 20, "bob": 0}, faults=sized(2, 3))
# Money to and fro, once without a key, so that nobody but the journal can tell what happened.
TO_AND_FRO = Setting(
    intents=(Intent("ada", "bob", 5), Intent("bob", "ada", 3, "k")),
    balances={"ada": 10, "bob": 3},
    faults=sized(2, 3),
)
SETTINGS = {"rivals": RIVALS, "twins": TWINS, "to and fro": TO_AND_FRO}


def explored(setting: Setting) -> Explored:
    """Visit every state of a setting."""
    properties = Properties(setting)
    model = PostingModel(setting)
    return explore(beginning(setting), model.steps, properties.broken, properties.stuck)


def figure(subject: str, found: Explored) -> str:
    """Tell what is broken, and the shortest way there."""
    steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(found.trace, 1))
    return f"{subject}: {found.broken}{steps}"


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_goes_wrong_in_any_order(name: str, record_property: Figure) -> None:
    """Sum zero, no overdraft, one movement a key, told only what is on disk, nobody stuck."""
    found = explored(SETTINGS[name])

    assert found.broken is None, "\n".join([found.broken or "", *found.trace])
    assert found.states > 10_000, "a model that goes nowhere proves nothing"
    record_property(
        "figure",
        f"posting, {name}: {found.states} states, {found.steps} steps, all as they must be",
    )


# Each with the setting and the number of faults that it takes.
MISTAKES = {
    "answers before the commit": (
        TWINS,
        0,
        Design(commits_before_answering=False),
        "client 1 is told of a movement that is not on disk",
    ),
    "repeats an unknown commit without looking": (
        TO_AND_FRO,
        1,
        Design(looks_after_unknown_commit=False),
        "transfer 1.1 moved money 2 times",
    ),
    "reads the keys before it has the locks": (
        TWINS,
        0,
        Design(reads_keys_again_if_overtaken=False),
        "key k moved money 2 times",
    ),
    "locks in the order of arrival": (
        TO_AND_FRO,
        0,
        Design(locks_in_one_order=False),
        "processes wait for each other for ever",
    ),
    "does not lock": (
        TO_AND_FRO,
        0,
        Design(locks_at_all=False),
        "the balance of ada is not what its entries add up to",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, record_property: Figure) -> None:
    """A design with a known mistake breaks a property, and the shortest way there is shown."""
    setting, faults, design, expected = MISTAKES[mistake]

    found = explored(
        Setting(intents=setting.intents, balances=setting.balances, design=design, faults=faults)
    )

    assert found.broken == expected
    record_property("figure", figure(f"posting that {mistake}", found))


def test_a_refusal_speaks_of_its_own_attempt_alone(record_property: Figure) -> None:
    """A limit: who gave an attempt up and is refused at the next may see the first one move."""
    setting = Setting(
        intents=(Intent("ada", "bob", 6, "k"), Intent("bob", "ada", 3, "other")),
        balances={"ada": 5, "bob": 3},
        faults=1,
    )
    properties, model = Properties(setting), PostingModel(setting)

    found = explore(
        beginning(setting), model.steps, properties.moved_though_refused, properties.stuck
    )

    assert "client 1 stops waiting" in found.trace
    record_property("figure", figure("posting's limit", found))
