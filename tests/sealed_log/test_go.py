"""Go's own packages for signed notes and transparency logs accept what Ousel makes."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ousel.sealed_log.merkle import consistency_proof, inclusion_proof
from ousel.sealed_log.notes import open_note, sign_note
from ousel.sealed_log.tiles import TILE_WIDTH, tile_of_size
from tests.sealed_log.examples import KEY, LogInMemory
from tests.support import go

SOURCE = Path(__file__).parent / "go_checker"
LEAVES = 70_000  # three levels of tiles
SIZES = (1, 2, 3, 7, 255, 256, 257, 300, 65_536, 65_537, LEAVES)

pytestmark = [pytest.mark.slow, pytest.mark.one_engine]


def test_go_accepts_checkpoints_proofs_and_tiles(tmp_path: Path) -> None:
    """It opens the notes, accepts the proofs, and makes the same tiles of the same leaves."""
    checker = go.build(SOURCE, tmp_path / "checker")
    log = LogInMemory([f"leaf {number}".encode() for number in range(LEAVES)])
    made = _run(
        checker,
        {
            "Key": str(KEY.verifier),
            "PrivateKey": KEY.private_text,
            "Checkpoints": [sign_note(log.checkpoint(size).text, [KEY]) for size in SIZES],
            "Leaves": [_base64(leaf) for leaf in log.leaves],
            "Inclusions": [
                _proof(index, size, inclusion_proof(index, size, log.hash_of))
                for size in SIZES
                for index in {0, size // 2, size - 1}
            ],
            "Consistencies": [
                _proof(old, size, consistency_proof(old, size, log.hash_of))
                for size in SIZES
                for old in SIZES
                if old < size
            ],
        },
    )
    assert made["Texts"] == [log.checkpoint(size).text for size in SIZES]
    assert open_note(made["Note"], [KEY.verifier]).text == "signed by Go\n"
    ours = {}
    for key, hashes in log.tiles.items():
        tile = tile_of_size(key, LEAVES)
        assert tile is not None
        assert tile.width == len(hashes) // 32 <= TILE_WIDTH
        ours[f"tile/8/{tile.address}"] = _base64(hashes)
    assert made["Tiles"] == ours


def test_go_refuses_a_wrong_proof(tmp_path: Path) -> None:
    """The program that accepts Ousel's proofs can also refuse one."""
    checker = go.build(SOURCE, tmp_path / "checker")
    log = LogInMemory([b"a", b"b", b"c"])
    wrong = _proof(1, 3, inclusion_proof(0, 3, log.hash_of))
    keys = {"Key": str(KEY.verifier), "PrivateKey": KEY.private_text}
    with pytest.raises(subprocess.CalledProcessError):
        _run(checker, keys | {"Leaves": ["YQ==", "Yg==", "Yw=="], "Inclusions": [wrong]})


def _run(checker: Path, given: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [checker], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=300
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _proof(old: int, new: int, hashes: list[bytes]) -> dict[str, Any]:
    return {"Old": old, "New": new, "Hashes": [_base64(each) for each in hashes]}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
