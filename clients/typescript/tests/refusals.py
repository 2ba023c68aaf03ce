"""Writes src/refusals.ts from the refusals of the Python client, so that both stay the same.

After a change of the Python client, run `.venv/bin/python -m clients.typescript.tests.refusals`.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from ousel_client import errors, refusals
from ousel_client.errors import ApiError

PATH = Path(__file__).parents[1] / "src" / "refusals.ts"
MODULE = """/**
 * One class for each error code of the API. This file is generated.
 *
 * The only code without a class is OAuth's `temporarily_unavailable`: it is thrown as Throttled.
 */

import {{
{imports}
}} from "./errors.ts";
{classes}"""
CLASS = """
/** {meaning} */
export class {name} extends {base} {{
  static override readonly code: string = "{code}";
}}
"""


def render() -> str:
    """Return the text of the file."""
    kinds = list(_kinds())
    bases = sorted({kind.__base__.__name__ for kind in kinds if kind.__base__})
    return MODULE.format(
        imports="\n".join(f"  {name}," for name in bases),
        classes="".join(map(_render_class, kinds)),
    )


def _kinds() -> Iterator[type[ApiError]]:
    for kind in vars(refusals).values():
        if isinstance(kind, type) and issubclass(kind, ApiError) and kind.code:
            yield kind


def _render_class(kind: type[ApiError]) -> str:
    assert kind.__base__ is not None
    assert hasattr(errors, kind.__base__.__name__)
    meaning = re.sub(r'members\["(\w+)"\]', r"members.\1", inspect.getdoc(kind) or "")
    return CLASS.format(
        meaning=meaning, name=kind.__name__, base=kind.__base__.__name__, code=kind.code
    )


if __name__ == "__main__":
    PATH.write_text(render())
