"""An authenticator in software: makes passkeys and signs challenges, rightly or wrongly."""

import hashlib
import json
import secrets
import struct
from base64 import urlsafe_b64decode
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from ousel.passkeys.rules import base64url

USER_PRESENT, USER_VERIFIED, HAS_CREDENTIAL = 0x01, 0x04, 0x40


class Authenticator:
    """Keeps one passkey; what it says of the site, the person and its counter can be forged."""

    def __init__(self, origin: str = "https://pay.example", site_id: str = "pay.example") -> None:
        self.origin = origin
        self.site_id = site_id
        self.flags = USER_PRESENT | USER_VERIFIED
        self.counter = 0
        self.counts = True
        self.credential_id = secrets.token_bytes(32)
        self.user_handle = b""
        self.names_user = True
        self._key = ec.generate_private_key(ec.SECP256R1())

    def make(self, options: dict[str, Any]) -> str:
        """Return what a browser sends for a new passkey."""
        self.user_handle = _decode(options["user"]["id"])
        length = struct.pack(">H", len(self.credential_id))
        credential = bytes(16) + length + self.credential_id + self._public_key()
        data = self._authenticator_data(HAS_CREDENTIAL) + credential
        attestation = {"fmt": "none", "attStmt": {}, "authData": data}
        return self._answer(
            clientDataJSON=self._client_data("webauthn.create", options),
            attestationObject=cbor2.dumps(attestation),
        )

    def sign(self, options: dict[str, Any]) -> str:
        """Return what a browser sends if a person uses the passkey."""
        self.counter += self.counts
        client_data = self._client_data("webauthn.get", options)
        data = self._authenticator_data(0)
        signed = data + hashlib.sha256(client_data).digest()
        handle = {"userHandle": self.user_handle} if self.names_user else {}
        return self._answer(
            clientDataJSON=client_data,
            authenticatorData=data,
            signature=self._key.sign(signed, ec.ECDSA(hashes.SHA256())),
            **handle,
        )

    def forget_key(self) -> None:
        """Sign with another key from now on, as somebody does who knows only public parts."""
        self._key = ec.generate_private_key(ec.SECP256R1())

    def _answer(self, **response: bytes) -> str:
        id_ = base64url(self.credential_id)
        encoded = {name: base64url(value) for name, value in response.items()}
        return json.dumps({"id": id_, "rawId": id_, "type": "public-key", "response": encoded})

    def _client_data(self, kind: str, options: dict[str, Any]) -> bytes:
        data = {"type": kind, "challenge": options["challenge"], "origin": self.origin}
        return json.dumps(data).encode()

    def _authenticator_data(self, more_flags: int) -> bytes:
        site = hashlib.sha256(self.site_id.encode()).digest()
        return site + struct.pack(">BI", self.flags | more_flags, self.counter)

    def _public_key(self) -> bytes:
        numbers = self._key.public_key().public_numbers()
        point = {-2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        return cbor2.dumps({1: 2, 3: -7, -1: 1} | point)


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")
