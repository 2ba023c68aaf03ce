"""A stranger checks a receipt with what the page on proof says, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ousel.sealed_log.proof_text import encode_proof_text
from tests.project.code_blocks import Block, blocks_in
from tests.sealed_log.examples import KEY, log_with, movement, receipt_of
from tests.support import go

ROOT = Path(__file__).parents[2]
BLOCKS = list(blocks_in(ROOT, "docs/concepts/proof.md"))
GO_MODULE = Path(__file__).parent / "go_checker"

pytestmark = [pytest.mark.slow, pytest.mark.one_engine]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a receipt, the log's key and the example script."""
    (tmp_path / "receipt.json").write_bytes(receipt_of(movement()))
    (tmp_path / "key.txt").write_text(f"{KEY.verifier}\n")
    shutil.copy(ROOT / "examples" / "check_receipt.py", tmp_path)
    return tmp_path


def run(block: Block, desk: Path) -> subprocess.CompletedProcess[str]:
    """Run a block of the page in this folder."""
    tools = Path(sys.executable).parent
    command = ["bash", "-ec"] if block.language == "sh" else [sys.executable, "-c"]
    return subprocess.run(
        [*command, block.text],
        cwd=desk,
        env=os.environ
        | {"PATH": f"{tools}:{os.environ['PATH']}", "VERIFIER_KEY": str(KEY.verifier)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "block",
    [each for each in BLOCKS if each.language in {"sh", "python"}],
    ids=lambda each: each.name,
)
def test_each_way_accepts_the_receipt_and_refuses_another(block: Block, desk: Path) -> None:
    done = run(block, desk)
    assert done.returncode == 0, done.stderr
    assert "25.00" in done.stdout

    changed = (desk / "receipt.json").read_bytes().replace(b"Lunch", b"Lunck")
    (desk / "receipt.json").write_bytes(changed)
    assert run(block, desk).returncode != 0


def test_the_program_in_go_accepts_the_receipt_and_refuses_another(desk: Path) -> None:
    """It reads the text form of the receipt."""
    (source,) = [block.text for block in BLOCKS if block.language == "go"]
    program = desk / "program"
    program.mkdir()
    (program / "main.go").write_text(source)
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO_MODULE / name, program)
    checker = go.build(program, desk / "checker")
    log, index = log_with(movement())
    text = encode_proof_text(log.inclusion(index))

    for content, accepts in (
        (text, True),
        (text.replace("index 5", "index 4"), False),
        (re.sub("extra ....", "extra AAAA", text), False),
        (text.replace(f"\n{len(log.leaves)}\n", "\n14\n"), False),
        ("\n".join(text.split("\n")[:3] + text.split("\n")[4:]), False),
        (text.replace("@v1", "@v2"), False),
        (f"\n\n{log.signed_checkpoint()}", False),
    ):
        (desk / "receipt.txt").write_text(content)
        done = subprocess.run(
            [checker, desk / "receipt.txt", str(KEY.verifier)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (0 if accepts else 1), done.stderr
        assert ('"amount":"25.00"' in done.stdout) == accepts
