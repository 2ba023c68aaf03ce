"""Receipts in the form of C2SP tlog-proof: a text, without names and without an entry.

Its extra data is the leaf.
"""

import re
from typing import Final

from ousel.sealed_log.notes import from_base64, to_base64
from ousel.sealed_log.receipts import Inclusion, ReceiptRefused

_FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def encode_proof_text(inclusion: Inclusion) -> str:
    """Return the proof in this form."""
    hashes = "".join(f"{to_base64(each)}\n" for each in inclusion.proof)
    return (
        f"{_FIRST_LINE}\nextra {to_base64(inclusion.leaf)}\nindex {inclusion.index}\n"
        f"{hashes}\n{inclusion.checkpoint}"
    )


def is_proof_text(content: bytes) -> bool:
    """Return whether a receipt claims to have this form."""
    return content.startswith(_FIRST_LINE.encode())


def parse_proof_text(content: bytes) -> Inclusion:
    """Return the proof that a receipt in this form contains, or refuse it."""
    try:
        head, _, checkpoint = content.decode().partition("\n\n")
    except UnicodeDecodeError:
        raise ReceiptRefused("the receipt is not UTF-8 text") from None
    lines = head.split("\n")
    index = lines[2].removeprefix("index ") if len(lines) > 2 else ""  # noqa: PLR2004
    if (
        lines[0] != _FIRST_LINE
        or not lines[1:2]
        or not lines[1].startswith("extra ")
        or not _INDEX.fullmatch(index)
        or lines[2] != f"index {index}"
    ):
        raise ReceiptRefused("the receipt is not in the form c2sp.org/tlog-proof@v1")
    leaf = from_base64(lines[1].removeprefix("extra "))
    return Inclusion(leaf, int(index), [from_base64(each) for each in lines[3:]], checkpoint)
