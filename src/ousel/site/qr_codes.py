"""QR codes, embedded in pages."""

from functools import lru_cache
from typing import Final

CACHED_CODES_MAX: Final = 1_000


def qr_code(text: str) -> str:
    """Return a QR code as a data URL."""
    import segno

    code = segno.make(text, micro=False)
    return code.svg_data_uri(border=3, light="#ffffff", omitsize=True)


@lru_cache(CACHED_CODES_MAX)
def cached_qr_code(text: str) -> str:
    """Return the QR code of a text that is not secret, from a cache because drawing it is slow."""
    return qr_code(text)
