"""How deep a JSON text is nested, found without decoding it."""

import re
from itertools import accumulate
from typing import Final

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
# How each byte outside a string changes the level of nesting: by 1, by -1 (stored as 255) or by 0.
_STEPS: Final = bytes({0x5B: 1, 0x7B: 1, 0x5D: 255, 0x7D: 255}.get(byte, 0) for byte in range(256))


def is_nested_deeper(text: bytes, levels: int) -> bool:
    """Return whether objects or arrays have more levels than this; the outermost is the first."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    steps = _STRING.sub(b"", text).translate(_STEPS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > levels
