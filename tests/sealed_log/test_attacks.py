"""Whoever can write to the database, and has the log's key, is still found out."""

import re
from pathlib import Path

import pytest

from ousel.sealed_log import store
from ousel.sealed_log.leaves import decode_leaf, encode_leaf
from tests.ledger.tampering import ledger_with_people
from tests.sealed_log.attacks import ATTACKS, Scene
from tests.sealed_log.examples import SECRETS
from tests.sealed_log.logs import Log
from tests.support.raw_sql import RawSql

PROOF = Path(__file__).parents[2] / "docs" / "concepts" / "proof.md"
FINDERS = ("verify", "verify --since", "monitor", "witness", "receipt")


@pytest.fixture
async def scene(log: Log, raw_sql: RawSql, tmp_path: Path) -> Scene:
    """Twelve movements, all sealed; outsiders have kept the checkpoint and one receipt."""
    people = await ledger_with_people(log.database)
    await log.sealer.seal_all()
    head = await log.database.read(store.read_head)
    assert head.checkpoint is not None
    scene = Scene(log, raw_sql, people, head.checkpoint, None, tmp_path)  # type: ignore[arg-type]
    movement = (await scene.movements())[6]
    scene.receipt = decode_leaf(encode_leaf(movement.debit, movement.credit.hash, SECRETS))
    return scene


async def test_nobody_finds_anything_in_a_sound_log(scene: Scene) -> None:
    assert await scene.found_by() == set()


@pytest.mark.slow
@pytest.mark.one_engine
@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_is_found_by_the_documented_checks(scene: Scene, name: str) -> None:
    """Exactly the checks that the documentation names find it."""
    attack, finders = ATTACKS[name]

    await attack(scene)

    assert await scene.found_by() == finders


def test_the_documentation_names_each_attack_and_its_finders() -> None:
    """The table has a row for each attack, with a mark for each one who finds it."""
    table = PROOF.read_text().partition("## Who finds what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|(.*)\|$", table, re.MULTILINE)[1:]
    shown = {
        name: {
            finder for finder, cell in zip(FINDERS, cells.split("|"), strict=True) if "yes" in cell
        }
        for name, cells in rows
        if not name.startswith("-")
    }

    assert shown == {name: finders for name, (_, finders) in ATTACKS.items()}
