"""A proxy that adds a field to every object in every answer, as a later version of Ousel may."""

from asyncio import StreamReader
from decimal import Decimal
from typing import Any, Final

import msgspec
from typing_extensions import override

from clients.python.tests.faults import FaultProxy, Wire

NEW_FIELDS: Final = {"added_tomorrow": {"object": "novelty", "number": 1.5, "list": [None, True]}}

# Decimals keep the digits with which the server wrote a number.
_decoder: Final = msgspec.json.Decoder(float_hook=Decimal)
_encoder: Final = msgspec.json.Encoder(decimal_format="number")


class FieldAddingProxy(FaultProxy):
    """Forwards HTTP to a port on this host, and adds a field to each JSON object in an answer."""

    def __init__(self, port: int) -> None:
        super().__init__(port, seed=0, chance=0)
        self.added = 0

    @override
    async def _answer(self, request: bytes, client: StreamReader, upstream: Wire) -> bytes:
        answer = await super()._answer(request, client, upstream)
        head, _, body = answer.partition(b"\r\n\r\n")
        if not body.startswith(b"{"):
            return answer
        changed = _encoder.encode(self._with_new_fields(_decoder.decode(body)))
        lines = [
            line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")
        ]
        return b"\r\n".join([*lines, f"Content-Length: {len(changed)}".encode(), b"", changed])

    def _with_new_fields(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._with_new_fields(each) for each in value]
        if not isinstance(value, dict):
            return value
        self.added += 1
        return NEW_FIELDS | {name: self._with_new_fields(each) for name, each in value.items()}
