"""`ousel export` and `ousel verify --journal`, as an operator runs them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import OUSEL, PROCESS_SECONDS_MAX, Operator, assert_fails, ousel
from tests.support.engines import ENGINES, Engine, Engines

FULL_DISK = Path("/dev/full")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_is_verified_without_the_database(
    operator: Operator, tmp_path: Path, form: str
) -> None:
    """Written beside a running server; the proof has the figures that the export told."""
    operator.open_account("10")
    file = tmp_path / "journal"

    written = operator.run("export", str(file), f"--format={form}", "--json").json
    proof = ousel("verify", f"--journal={file}", "--json", database="nowhere://").json

    assert written["file"] == str(file)
    assert written["bytes"] == file.stat().st_size
    assert (proof["entries"], proof["accounts"]) == (written["entries"], written["accounts"])
    assert proof["result"] == "the books balance"
    assert list(proof) == ["result", "entries", "accounts", "transfers", "issued", "seconds"]


def test_the_ledger_extends_an_older_export(operator: Operator, tmp_path: Path) -> None:
    """The database and a later export begin with what the older export has, not vice versa."""
    older, newer = tmp_path / "older", tmp_path / "newer"
    operator.run("export", str(older))
    operator.open_account("10")
    operator.run("export", str(newer))

    assert operator.run("verify", f"--extends={older}", "--json").json["result"]
    assert operator.run("verify", f"--journal={newer}", f"--extends={older}").exit_code == 0
    assert_fails(
        operator.run("verify", f"--journal={older}", f"--extends={newer}"),
        "is in the older export, but not here",
    )
    assert_fails(operator.run("verify", f"--extends={tmp_path / 'none'}"), "cannot be read")


def test_an_export_is_printed_where_no_file_is_wanted(operator: Operator, tmp_path: Path) -> None:
    """With - standard output has the journal and nothing else."""
    operator.open_account("1")
    printed = operator.run("export", "-")
    assert (printed.exit_code, printed.errors) == (0, "")
    file = tmp_path / "journal"
    file.write_text(printed.output)

    assert ousel("verify", f"--journal={file}", database="nowhere://").exit_code == 0


def test_what_is_reported_as_written_is_on_disk(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the content, then, under its final name, the name."""
    file = tmp_path / "written"
    flushed: list[tuple[Path, bool]] = []
    for flush in ("flush", "flush_folder"):
        monkeypatch.setattr(
            f"ousel.database.backup.{flush}", lambda path: flushed.append((path, file.exists()))
        )

    assert operator.run("export", str(file)).exit_code == 0

    (content, was_there), folder = flushed
    assert (content.suffix, was_there) == (".unfinished", False)
    assert folder == (tmp_path, True)


def test_an_export_overwrites_nothing(operator: Operator, tmp_path: Path) -> None:
    """A file that exists is refused and stays as it is."""
    file = tmp_path / "precious"
    file.write_text("precious")

    assert_fails(operator.run("export", str(file)), "does not overwrite files")
    assert file.read_text() == "precious"


def test_a_file_that_cannot_be_written_is_reported_in_one_line(
    operator: Operator, tmp_path: Path
) -> None:
    """And nothing unfinished is left behind."""
    missing = tmp_path / "missing"

    assert_fails(operator.run("export", str(missing / "journal")), f"there is no folder {missing}")
    assert_fails(operator.run("export", "/proc/journal"), "cannot be written: No such file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_reader_that_stops_early_is_reported_in_one_line(operator: Operator) -> None:
    """`ousel export - | head` ends without a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        errors = _errors_of_printing(operator, writer)
    finally:
        os.close(writer)

    assert errors == "ousel: the export was not read to its end\n"


@pytest.mark.slow
@pytest.mark.skipif(not FULL_DISK.exists(), reason="only Linux has a device that is always full")
def test_a_disk_that_is_full_is_reported_in_one_line(operator: Operator) -> None:
    """`ousel export - > file` says why the export cannot be printed."""
    with FULL_DISK.open("wb") as full:
        errors = _errors_of_printing(operator, full.fileno())

    assert errors == "ousel: the export cannot be printed: No space left on device\n"


def _errors_of_printing(operator: Operator, output: int) -> str:
    """Return what an export prints as errors if its output goes here."""
    ended = subprocess.run(
        [OUSEL, "export", "-", "--database", operator.url],
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
    )
    assert ended.returncode == 1
    return ended.stderr


def test_a_missing_or_invalid_file_is_reported_in_one_line(tmp_path: Path) -> None:
    """No traceback, whatever is given as an export."""
    other = tmp_path / "other"
    other.write_bytes(b"\x00\x01")
    database = "nowhere://"

    missing = ousel("verify", f"--journal={tmp_path / 'none'}", database=database)
    assert_fails(missing, "cannot be read: No such file")
    folder = ousel("verify", f"--journal={tmp_path}", database=database)
    assert_fails(folder, "cannot be read: Is a directory")
    assert_fails(ousel("verify", f"--journal={other}", database=database), "line 1 of the export")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_damaged_export_is_named_by_line_or_entry(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """Exit 1, and one line that names the entry."""
    url = engines.fresh_url(engine, tmp_path)
    ousel("account", "create", "--username=ada", "--email=a@b.example", "--name=A", database=url)
    ousel("account", "fund", "@ada", "5", "--note=first", database=url)
    file = tmp_path / "journal"
    assert ousel("export", str(file), database=url).exit_code == 0
    file.write_text(file.read_text().replace('"note":"first"', '"note":"forged"'))

    damaged = ousel("verify", f"--journal={file}", database="nowhere://")

    assert_fails(damaged, "entry 1 of account acct_00000000000000000000000000 was changed")
    engines.give_back(url)
