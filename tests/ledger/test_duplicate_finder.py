"""Texts that occur twice are found, however many there are."""

import errno
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from ousel.kernel.errors import OperatorError
from ousel.ledger import duplicate_finder
from ousel.ledger.duplicate_finder import DuplicateFinder


def suspects_among(texts: list[str]) -> set[str]:
    """Return the texts that may occur twice."""
    with DuplicateFinder() as finder:
        for text in texts:
            finder.add(text)
        suspects = finder.suspects()
    return {text for text in texts if DuplicateFinder.is_suspect(text, suspects)}


@given(st.lists(st.text(max_size=2)))
def test_exactly_the_texts_that_occur_twice_are_found(texts: list[str]) -> None:
    """Equal texts have equal hashes, and different ones hardly ever do."""
    assert suspects_among(texts) == {text for text in texts if texts.count(text) > 1}


def test_duplicates_are_found_across_memory_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no difference which hashes are in memory and which were written to files."""
    monkeypatch.setattr(duplicate_finder, "HASHES_WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr(duplicate_finder, "PART_BYTES_IN_MEMORY", 16)
    texts = [f"tr_{number}" for number in range(5_000)]

    assert suspects_among([*texts, "tr_7", "tr_4999"]) == {"tr_7", "tr_4999"}


def test_hashes_are_written_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write takes time, so a hash waits in memory for others."""
    written: list[int] = []

    class CountingFile(BytesIO):
        @override
        def write(self, content: Any) -> int:
            written.append(len(content))
            return super().write(content)

    monkeypatch.setattr(duplicate_finder, "HASHES_WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr(duplicate_finder, "SpooledTemporaryFile", lambda _: CountingFile())
    assert suspects_among(["tr_1"] * 5) == {"tr_1"}
    assert written == [16, 16]


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the database that has failed."""

    class FullFile(BytesIO):
        @override
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        @override
        def close(self) -> None:
            if not self.closed:  # as a real file: it is closed, whatever the disk says
                super().close()
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(duplicate_finder, "HASHES_WRITTEN_AT_ONCE", 1)
    monkeypatch.setattr(duplicate_finder, "SpooledTemporaryFile", lambda _: FullFile())
    with pytest.raises(OperatorError, match="files cannot be written or read: No space left"):
        suspects_among(["tr_1"])
