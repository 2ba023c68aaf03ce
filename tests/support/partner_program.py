"""Programs in other languages that use Ousel as a partner's software does."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

OpenAddress = Callable[[str], Awaitable[str]]


async def run_partner_program(
    *command: str | Path, options: dict[str, Any], open_address: OpenAddress | None = None
) -> Any:
    """Run a program, and return the JSON on the last line that it prints.

    The program takes its options as JSON in one argument. When it prints `Open` and an address,
    the address is opened, and the program is told the address to which the person returned.
    """
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        json.dumps(options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    line = ""
    async for printed in process.stdout:
        line = printed.decode()
        if line.startswith("Open ") and open_address is not None:
            return_url = await open_address(line.split()[1])
            process.stdin.write(f"{return_url}\n".encode())
    assert await process.wait() == 0, "the program failed; its errors are above"
    return json.loads(line)
