"""QR codes, embedded in pages."""

import segno


def qr_code(text: str) -> str:
    """Return a QR code as a data URL."""
    code = segno.make(text, micro=False)
    return code.svg_data_uri(border=3, light="#ffffff", omitsize=True)
