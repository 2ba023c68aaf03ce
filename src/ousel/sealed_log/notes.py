"""Signed notes as in C2SP signed-note, with Ed25519 signatures and tlog-cosignature cosignatures.

A note is a text that ends in a newline, then an empty line, then one line for each signature. A
verifier key is `<name>+<key id in hex>+<base64 of type and public key>`.
"""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from typing_extensions import override

NOTE_BYTES_MAX: Final = 64 * 1024
SIGNATURES_MAX: Final = 100
ED25519: Final = 1  # signature type: signs the text
COSIGNATURE: Final = 4  # signature type: signs the text and the time of signing

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_KEY_ID_BYTES: Final = 4
_TIME_BYTES: Final = 8
_TIME_MAX: Final = 2**63 - 1
_PRIVATE_PREFIX: Final = "PRIVATE+KEY+"
_SIGNATURE_LINE: Final = re.compile(r"— (?P<name>[^\s+]+) (?P<signature>[A-Za-z0-9+/]+={0,2})")


class NoteRefused(Exception):
    """The note or the key is malformed, or a signature is wrong; the message says which."""


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key with the name and the id by which signature lines refer to it."""

    name: str
    type: int
    public: bytes

    @property
    def id(self) -> bytes:
        """The first four bytes of the hash of name, type and public key."""
        material = self.name.encode() + b"\n" + bytes([self.type]) + self.public
        return hashlib.sha256(material).digest()[:_KEY_ID_BYTES]

    @override
    def __str__(self) -> str:
        """Return the key as one line of text."""
        return f"{self.name}+{self.id.hex()}+{to_base64(bytes([self.type]) + self.public)}"


class SigningKey:
    """A private Ed25519 key with a name. `type` says which kind of signature it makes."""

    def __init__(self, name: str, seed: bytes, type_: int = ED25519) -> None:
        """Use this seed of 32 bytes; the name must not contain spaces or plus signs."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        _check_name(name)
        self._seed = seed
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(name, type_, self._private.public_key().public_bytes_raw())

    @property
    def private_text(self) -> str:
        """The private key as one line of text, in the form that Go's note package uses."""
        verifier = self.verifier
        material = to_base64(bytes([verifier.type]) + self._seed)
        return f"{_PRIVATE_PREFIX}{verifier.name}+{verifier.id.hex()}+{material}"

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of these bytes."""
        return self._private.sign(message)

    def signature_line(self, text: str, now_seconds: int = 0) -> str:
        """Return the line that signs this note text; a cosignature also signs the time."""
        if self.verifier.type == COSIGNATURE:
            signature = now_seconds.to_bytes(_TIME_BYTES) + self.sign(
                _cosigned_message(text, now_seconds)
            )
        else:
            signature = self.sign(text.encode())
        return f"— {self.verifier.name} {to_base64(self.verifier.id + signature)}\n"


class Signature(msgspec.Struct, frozen=True):
    """A signature that was found correct."""

    key: VerifierKey
    signed_at: int | None  # seconds since 1970, for a cosignature


class OpenedNote(msgspec.Struct, frozen=True):
    """The text of a note, and who signed it."""

    text: str
    signatures: list[Signature]
    unknown_signatures: int  # signatures of keys that the reader did not give

    def is_signed_by(self, key: VerifierKey) -> bool:
        """Return whether this key signed the text."""
        return any(signature.key == key for signature in self.signatures)

    def signatures_of(self, keys: Collection[VerifierKey]) -> list[Signature]:
        """Return the signatures of these keys."""
        return [signature for signature in self.signatures if signature.key in keys]


def new_signing_key(name: str, type_: int = ED25519) -> SigningKey:
    """Return a key with this name that is drawn at random."""
    return SigningKey(name, secrets.token_bytes(_KEY_BYTES), type_)


def parse_verifier_key(text: str) -> VerifierKey:
    """Return the key of a line of text, or refuse the line."""
    name, type_, public = _parse_key(text.strip())
    key = VerifierKey(name, type_, public)
    if str(key) != text.strip():
        raise NoteRefused("the verifier key is wrong: its id does not match its name and key")
    return key


def parse_signing_key(text: str) -> SigningKey:
    """Return the private key of a line of text, or refuse the line."""
    line = text.strip()
    if not line.startswith(_PRIVATE_PREFIX):
        raise NoteRefused(f"a private key begins with {_PRIVATE_PREFIX}")
    name, type_, seed = _parse_key(line.removeprefix(_PRIVATE_PREFIX))
    key = SigningKey(name, seed, type_)
    if key.private_text != line:
        raise NoteRefused("the private key is wrong: its id does not match its name and key")
    return key


def sign_note(text: str, signers: Sequence[SigningKey], now_seconds: int = 0) -> str:
    """Return the note with this text and one signature of each key."""
    _check_text(text)
    return text + "\n" + "".join(each.signature_line(text, now_seconds) for each in signers)


def open_note(note: str, keys: Sequence[VerifierKey]) -> OpenedNote:
    """Return the text of a note that at least one of these keys signed, or refuse the note.

    Signatures of other keys are ignored, as the specification demands.
    """
    text, lines = split_note(note)
    known = {(key.name, key.id): key for key in keys}
    signatures: dict[VerifierKey, Signature] = {}
    unknown = 0
    for line in lines:
        name, key_id, signature = _parse_signature_line(line)
        key = known.get((name, key_id))
        if key is None:
            unknown += 1
        else:
            signatures.setdefault(key, verify(key, text, signature))
    if not signatures:
        names = " or ".join(sorted({key.name for key in keys})) or "anyone known"
        raise NoteRefused(f"the note is not signed by the key of {names}")
    return OpenedNote(text, list(signatures.values()), unknown)


def split_note(note: str) -> tuple[str, list[str]]:
    """Return the text of a note and its signature lines, unchecked."""
    if len(note) > NOTE_BYTES_MAX:
        raise NoteRefused("the note is too long")
    before, separator, after = note.rpartition("\n\n")
    if not separator or not after.endswith("\n"):
        raise NoteRefused("the text has no signatures, so it is not a signed note")
    lines = after.split("\n")[:-1]
    if len(lines) > SIGNATURES_MAX:
        raise NoteRefused("the note has too many signatures")
    text = before + "\n"
    _check_text(text)
    return text, lines


def known_lines(note: str, keys: Sequence[VerifierKey]) -> str:
    """Return the signature lines of a note that name one of these keys, each line once."""
    known = {(key.name, key.id) for key in keys}
    lines = dict.fromkeys(split_note(note)[1])
    return "".join(f"{line}\n" for line in lines if _parse_signature_line(line)[:2] in known)


def names_signer(note: str, key: VerifierKey) -> bool:
    """Return whether a note has a signature of this key, according to its unverified lines."""
    signers = [_parse_signature_line(line)[:2] for line in split_note(note)[1]]
    return (key.name, key.id) in signers


def verify(key: VerifierKey, text: str, signature: bytes) -> Signature:
    """Return the signature of a note text if it is correct, or refuse it."""
    if key.type == ED25519:
        _verify_bytes(key, signature, text.encode())
        return Signature(key, None)
    if key.type == COSIGNATURE:
        seconds = int.from_bytes(signature[:_TIME_BYTES])
        if seconds > _TIME_MAX:
            raise NoteRefused(f"the cosignature of {key.name} has no valid time")
        _verify_bytes(key, signature[_TIME_BYTES:], _cosigned_message(text, seconds))
        return Signature(key, seconds)
    raise NoteRefused(f"the key of {key.name} has the unknown type {key.type}")


def is_signed(key: VerifierKey, signature: bytes, message: bytes) -> bool:
    """Return whether this is the key's plain Ed25519 signature of these bytes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if len(signature) != _SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def to_base64(content: bytes) -> str:
    """Return standard Base64 with padding."""
    return base64.b64encode(content).decode()


def from_base64(text: str) -> bytes:
    """Return the bytes of standard Base64, or refuse any encoding but the canonical one."""
    try:
        content = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        content = b""
    if not text or to_base64(content) != text:
        raise NoteRefused("a field is not in standard Base64")
    return content


def _verify_bytes(key: VerifierKey, signature: bytes, message: bytes) -> None:
    if not is_signed(key, signature, message):
        raise NoteRefused(f"the signature of {key.name} is wrong")


def _cosigned_message(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _parse_key(text: str) -> tuple[str, int, bytes]:
    name, _, rest = text.partition("+")
    key_id, _, material = rest.partition("+")
    _check_name(name)
    content = from_base64(material) if key_id else b""
    if len(content) != 1 + _KEY_BYTES or content[0] not in {ED25519, COSIGNATURE}:
        raise NoteRefused("the key is not in the form <name>+<id>+<Ed25519 key in Base64>")
    return name, content[0], content[1:]


def _parse_signature_line(line: str) -> tuple[str, bytes, bytes]:
    match = _SIGNATURE_LINE.fullmatch(line)
    content = from_base64(match["signature"]) if match else b""
    if match is None or len(content) <= _KEY_ID_BYTES:
        raise NoteRefused("a signature line of the note is malformed")
    return match["name"], content[:_KEY_ID_BYTES], content[_KEY_ID_BYTES:]


def _check_name(name: str) -> None:
    if not name or "+" in name or any(each.isspace() for each in name):
        raise NoteRefused("the name of a key must not be empty or contain spaces or plus signs")


def _check_text(text: str) -> None:
    if not text.endswith("\n") or any(ord(each) < ord(" ") for each in text.replace("\n", "")):
        raise NoteRefused("the text of a note must end in a newline and have no control characters")
