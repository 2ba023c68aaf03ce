"""Posting in every possible order of events: two processes, a few intents, some faults."""

from collections.abc import Callable

import msgspec
import pytest

from tests.faults.sizes import sized
from tests.spec.explorer import Exploration, explore
from tests.spec.posting import PostingModel
from tests.spec.properties import Properties
from tests.spec.world import Design, Intent, Scenario, initial_world

pytestmark = pytest.mark.slow

RecordProperty = Callable[[str, object], None]

# The same key on two processes at once, and another key for the same money: one key is refused.
RIVALS = Scenario(
    intents=(
        Intent("ada", "bob", 6, "k"),
        Intent("ada", "bob", 6, "k"),
        Intent("ada", "bob", 6, "other"),
    ),
    balances={"ada": 10, "bob": 0},
    faults=sized(0, 1),
)
# The same key on two processes, and enough money for both.
TWINS = Scenario(intents=RIVALS.intents[:2], balances={"ada": 20, "bob": 0}, faults=sized(1, 2))
# Money in both directions, once without a key, so that only the journal shows what happened.
TO_AND_FRO = Scenario(
    intents=(Intent("ada", "bob", 5), Intent("bob", "ada", 3, "k")),
    balances={"ada": 10, "bob": 3},
    faults=sized(1, 2),
)
# Money in both directions, without keys.
CROSSING = Scenario(
    intents=(Intent("ada", "bob", 5), Intent("bob", "ada", 3)), balances={"ada": 10, "bob": 3}
)
# A movement that nobody was told of, and a switch of leaders that may lose it, and more.
LOSSES = Scenario(
    intents=(Intent("ada", "bob", 5), Intent("bob", "ada", 1, "k"), Intent("ada", "bob", 1)),
    balances={"ada": 11, "bob": 0},
    faults=sized(1, 2),
    moved_before=1,
    loses_history=True,
)
SCENARIOS = {"rivals": RIVALS, "twins": TWINS, "to and fro": TO_AND_FRO, "losses": LOSSES}


def explore_scenario(scenario: Scenario) -> Exploration:
    """Visit every state of a scenario."""
    properties = Properties(scenario)
    model = PostingModel(scenario)
    return explore(initial_world(scenario), model.steps, properties.violation, properties.deadlock)


def describe(subject: str, found: Exploration) -> str:
    """Return the violation, and the shortest way there."""
    steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(found.trace, 1))
    return f"{subject}: {found.violation}{steps}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_goes_wrong_in_any_order(name: str, record_property: RecordProperty) -> None:
    """Sum zero, no overdraft, one movement per key, answers only after the commit, no deadlock."""
    found = explore_scenario(SCENARIOS[name])

    assert found.violation is None, "\n".join([found.violation or "", *found.trace])
    assert found.states > sized(4_000, 10_000), "a model with few states proves nothing"
    record_property(
        "figure",
        f"posting, {name}: {found.states} states, {found.steps} steps, no violation",
    )


# Each mistake with the scenario and the number of faults that reveal it, and what they reveal.
MISTAKES = {
    "answers before the commit": (
        TWINS,
        0,
        Design(commits_before_answering=False),
        "client 1 got a movement as its answer that is not on disk",
    ),
    "repeats an unknown commit without looking": (
        TO_AND_FRO,
        1,
        Design(looks_after_unknown_commit=False),
        "transfer 1.1 moved money 2 times",
    ),
    "reads the keys before it gets the locks": (
        TWINS,
        0,
        Design(reads_keys_again_if_overtaken=False),
        "key k moved money 2 times",
    ),
    "locks in the order of arrival": (
        CROSSING,
        2,
        Design(locks_in_one_order=False),
        "processes wait for each other forever",
    ),
    "looks only behind the first sequence numbers": (
        msgspec.structs.replace(LOSSES, processes=1, intents=LOSSES.intents[::2]),
        3,
        Design(looks_behind_lowest_sequence=False),
        "transfer 1.1 moved money 2 times",
    ),
    "sets aside what is in doubt": (
        TO_AND_FRO,
        1,
        Design(waits_for_all_rows_in_doubt=False),
        "transfer 1.1 moved money 2 times",
    ),
    "does not lock": (
        TO_AND_FRO,
        0,
        Design(locks_at_all=False),
        "the balance of ada is not what its entries add up to",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, record_property: RecordProperty) -> None:
    """A design with a deliberate mistake violates a property, and the shortest way is shown."""
    scenario, faults, design, expected = MISTAKES[mistake]

    found = explore_scenario(msgspec.structs.replace(scenario, design=design, faults=faults))

    assert found.violation == expected
    record_property("figure", describe(f"posting that {mistake}", found))


def test_a_refusal_is_about_its_own_attempt_only(record_property: RecordProperty) -> None:
    """A limit: if a client gives up and its next attempt is refused, the first may still move."""
    scenario = Scenario(
        intents=(Intent("ada", "bob", 6, "k"), Intent("bob", "ada", 3, "other")),
        balances={"ada": 5, "bob": 3},
        faults=1,
    )
    properties, model = Properties(scenario), PostingModel(scenario)

    found = explore(
        initial_world(scenario), model.steps, properties.moved_though_refused, properties.deadlock
    )

    assert "client 1 stops waiting" in found.trace
    record_property("figure", describe("posting's limit", found))
