"""The code blocks of documents, and a reader who runs them on a sandbox."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import msgspec
from markdown_it import MarkdownIt

from ousel.database.addresses import open_database
from tests.oauth.consents import REDIRECT_URI, Consent
from tests.support.accounts import partner, person
from tests.support.programs import program
from tests.support.server import Server

SHELL = {"sh", "shell"}
PROGRAMS = {"python", *SHELL}
BLANK = "…"
DEMO_ORIGIN = "http://127.0.0.1:8000"
RETURN_URL = "http://127.0.0.1:9000/connected"  # of the tutorial's own application
PROGRAM_FILE = "program.py"
SECONDS_MAX = 300
HANDLE_CHARACTERS = 16


class Block(msgspec.Struct, frozen=True):
    """A code block: its document, its language, its text, and the file name it is given there."""

    document: str
    number: int
    language: str
    text: str
    file: str = PROGRAM_FILE

    @property
    def name(self) -> str:
        """The document, and the number of the block among its programs."""
        return f"{self.document}-{self.number}"


def blocks_in(root: Path, document: str) -> Iterator[Block]:
    """Yield the code blocks of a document. Only programs are numbered."""
    tokens = MarkdownIt("commonmark").parse((root / document).read_text())
    number = 0
    for index, token in enumerate(tokens):
        if token.type != "fence":
            continue
        number += token.info in PROGRAMS
        before = tokens[index - 2].content if index > 1 else ""
        named = re.search(r"`(\w+\.py)`:$", before)
        file = named[1] if named else PROGRAM_FILE
        yield Block(document, number, token.info, token.content, file)


class Reader:
    """Fills in the blanks of a block, runs it, and does what it asks the reader to do."""

    def __init__(self, server: Server, url: str) -> None:
        self._server = server
        self._url = url
        self._consent, self._token, self._spare_handle = asyncio.run(self._set_up())
        self._authorized = {"Authorization": f"Bearer {self._consent.key}"}

    def failures(self, blocks: list[Block], folder: Path) -> list[str]:
        """Run the blocks in order in a folder. Return each failure with the name of its block."""
        (folder / ".venv").symlink_to(sys.prefix)  # as in a checkout
        outcomes = ((block.name, self._run_block(block, folder)) for block in blocks)
        return [f"{name}: {failure}" for name, failure in outcomes if failure]

    def _run_block(self, block: Block, folder: Path) -> str:
        charge_id = self._charge(paid="Prefer: wait" in block.text)
        text = self._fill_in(block.text, folder, charge_id)
        if BLANK in text:
            return f"the reader does not know what to fill in: {text}"
        if block.language in SHELL:
            command = ["bash", "-euo", "pipefail", "-c", _strict(text)]
        else:
            (folder / block.file).write_text(text)
            command = [sys.executable, "-u", block.file]
        return self._run_command(command, folder, charge_id)

    def _run_command(self, command: list[str], folder: Path, charge_id: str) -> str:
        """Run a command, and open the addresses that it names. Return its output if it fails."""
        output = ""
        with subprocess.Popen(
            ["timeout", str(SECONDS_MAX), *command],
            cwd=folder,
            env=self._environment(charge_id),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in process.stdout:
                output += line
                if line.startswith("Open http"):
                    process.stdin.write(self._open_address(line.split()[1]))
                    process.stdin.flush()
        return f"exit {process.returncode}: {output}" if process.returncode else ""

    def _open_address(self, address: str) -> str:
        """Pay or connect at this address. Return what the reader then types."""
        parts = urlsplit(address)
        query = dict(parse_qsl(parts.query))
        if parts.path == "/connect":
            code = asyncio.run(self._code(**query))
            back = {"code": code, "state": query["state"], "iss": self._server.origin}
            return f"{query['redirect_uri']}?{urlencode(back)}\n"
        charge_id = parts.path.removeprefix("/pay/")
        self._post(f"/sandbox/charges/{charge_id}/pay", payer="@ada")
        return ""

    def _fill_in(self, text: str, folder: Path, charge_id: str) -> str:
        blanks = {
            DEMO_ORIGIN: self._server.origin,
            "sk_test_…": self._consent.key,
            "ut_test_…": self._token,
            "app_…": self._consent.app.id,
            "ch_…": charge_id,
            "sk_live_abcd1234": self._spare_handle,
            "/var/backups/": f"{folder}/",
            "/var/lib/ousel/": f"{folder}/",
        }
        if "ac_…" in text:
            blanks["ac_…"] = asyncio.run(self._code(redirect_uri=RETURN_URL))
        for blank, value in blanks.items():
            text = text.replace(blank, value)
        return text

    def _environment(self, charge_id: str) -> dict[str, str]:
        """Return the environment that earlier blocks have set up."""
        return {
            **os.environ,
            "OUSEL_KEY": self._consent.key,
            "OUSEL_BASE_URL": self._server.base_url,
            "OUSEL_DATABASE_URL": self._url,
            "USER_TOKEN": self._token,
            "CHARGE_ID": charge_id,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def _charge(self, *, paid: bool) -> str:
        """Return the id of a new charge, paid or not."""
        charge_id: str = self._post("/charges", amount=1)["id"]
        if paid:
            self._post(f"/sandbox/charges/{charge_id}/pay", payer="@ada")
        return charge_id

    def _post(self, path: str, **body: object) -> Any:
        answer = httpx2.post(
            f"{self._server.base_url}{path}", json=body, headers=self._authorized, verify=False
        )
        assert answer.is_success, answer.text
        return answer.json()

    async def _set_up(self) -> tuple[Consent, str, str]:
        """Create the accounts of the tutorial. Return an app, a user token, and a spare key."""
        async with open_database(self._url) as database:
            await person(database, "ada", "1000")
            _, _, spare = await partner(database, "harbour", kind="test")
            consent = await Consent.of_new_people(
                database, funds="1000", kind="test", redirect_uris=[REDIRECT_URI, RETURN_URL]
            )
            async with self._server.client() as client:
                return consent, await consent.token(client), spare[:HANDLE_CHARACTERS]

    async def _code(self, **query: str) -> str:
        """Return the authorization code for a connect address with this query."""
        async with open_database(self._url) as database:
            return await msgspec.structs.replace(self._consent, database=database).code(**query)


def _strict(script: str) -> str:
    """Return the script with calls of curl that fail on an error answer."""
    if "curl " not in script:
        return script
    return f'curl() {{ {program("curl")} --fail-with-body "$@"; }}\n{script}'
