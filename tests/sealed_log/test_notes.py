"""Signed notes, cosignatures and verifier keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.sealed_log.checkpoints import open_checkpoint, parse_checkpoint
from ousel.sealed_log.notes import (
    COSIGNATURE,
    NoteRefused,
    SigningKey,
    open_note,
    parse_signing_key,
    parse_verifier_key,
    sign_note,
    split_note,
)
from tests.sealed_log.examples import KEY, LogInMemory

WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)
OTHER = SigningKey(KEY.verifier.name, bytes(32))

# The example of the C2SP specification of signed notes.
SPECIFIED_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
SPECIFIED_NOTE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFX"
    "mRKuwHjG1Yu72IneyaQM=\n"
)

lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
texts = st.lists(lines, min_size=1, max_size=5).map(lambda each: "\n".join(each) + "\n")


def test_the_example_of_the_specification() -> None:
    opened = open_note(SPECIFIED_NOTE, [parse_verifier_key(SPECIFIED_KEY)])
    assert opened.text == "This is an example message.\n"


@given(text=texts)
def test_a_signed_text_opens_with_the_key_alone(text: str) -> None:
    """The key opens its note; another key with the same name does not."""
    note = sign_note(text, [KEY])
    assert open_note(note, [KEY.verifier]).text == text
    with pytest.raises(NoteRefused, match="not signed"):
        open_note(note, [OTHER.verifier])


@given(text=texts, seconds=st.integers(0, 2**63 - 1))
def test_a_cosignature_signs_the_text_and_the_time(text: str, seconds: int) -> None:
    """The time of a cosignature cannot be changed."""
    note = sign_note(text, [WITNESS], seconds)
    (signature,) = open_note(note, [WITNESS.verifier]).signatures
    assert signature.signed_at == seconds

    body, (line,) = split_note(note)
    later = WITNESS.signature_line(body, (seconds + 1) % 2**63)
    _, name, content = line.split(" ")
    forged = content[:18] + later.split(" ")[2].strip()[18:]
    with pytest.raises(NoteRefused):
        open_note(f"{body}\n— {name} {forged}\n", [WITNESS.verifier])


def test_signatures_of_unknown_keys_are_counted_and_ignored() -> None:
    opened = open_note(sign_note("text\n", [OTHER, KEY, WITNESS], 7), [KEY.verifier])
    assert opened.unknown_signatures == 2
    assert opened.is_signed_by(KEY.verifier)


def test_a_wrong_signature_of_a_known_key_refuses_the_note() -> None:
    """Another key's correct signature does not make up for it."""
    note = sign_note("text\n", [KEY]) + WITNESS.signature_line("another text\n")
    with pytest.raises(NoteRefused, match="signature of witness"):
        open_note(note, [KEY.verifier, WITNESS.verifier])


@given(
    name=st.from_regex(r"[a-z./]{1,20}", fullmatch=True), seed=st.binary(min_size=32, max_size=32)
)
@pytest.mark.parametrize("type_", [1, 4])
def test_keys_survive_being_written_down(name: str, seed: bytes, type_: int) -> None:
    """A key read from its text is the same key."""
    key = SigningKey(name, seed, type_)
    assert parse_verifier_key(f"{key.verifier}\n") == key.verifier
    assert parse_signing_key(key.private_text).verifier == key.verifier


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/foo",
        "example.com/foo+530d903a",
        SPECIFIED_KEY.replace("530d903a", "530d903b"),
        SPECIFIED_KEY.replace("530d903a", "530D903A"),
        SPECIFIED_KEY.replace("foo", "bar"),
        SPECIFIED_KEY[:-4],
        SPECIFIED_KEY.replace("AekyeR", "BekyeR"),
        "example.com foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
    ],
)
def test_a_malformed_key_is_refused(text: str) -> None:
    with pytest.raises(NoteRefused):
        parse_verifier_key(text)


def test_a_private_key_is_not_a_verifier_key() -> None:
    """Whoever mixes the two up is told so."""
    with pytest.raises(NoteRefused):
        parse_verifier_key(KEY.private_text)
    with pytest.raises(NoteRefused, match="begins with"):
        parse_signing_key(str(KEY.verifier))


@pytest.mark.parametrize(
    "note",
    [
        "",
        "text\n",
        "text\n\n",
        "text\n\n— name\n",
        "text\n\n- example.com/foo Uw2QOg==\n",
        SPECIFIED_NOTE.rstrip("\n"),
        SPECIFIED_NOTE.replace("example m", "example\tm"),
        SPECIFIED_NOTE.replace("aQM=", "aQN="),  # the same bytes, spelled differently
        SPECIFIED_NOTE + SPECIFIED_NOTE.split("\n")[2] + "\n" * 2,
        SPECIFIED_NOTE + "x" * 70_000,
    ],
)
def test_a_malformed_note_is_refused(note: str) -> None:
    with pytest.raises(NoteRefused):
        open_note(note, [parse_verifier_key(SPECIFIED_KEY)])


def test_a_checkpoint_has_the_name_of_its_key() -> None:
    """A key signs for the log that has its name, and for no other."""
    log = LogInMemory([b"one", b"two"])
    checkpoint, opened = open_checkpoint(
        log.signed_checkpoint(WITNESS), [KEY.verifier], [WITNESS.verifier]
    )
    assert checkpoint == log.checkpoint()
    assert parse_checkpoint(checkpoint.text) == checkpoint
    assert [each.key for each in opened.signatures] == [KEY.verifier, WITNESS.verifier]

    foreign = SigningKey("other.example.com/log", bytes(32))
    with pytest.raises(NoteRefused, match="no given key of"):
        open_checkpoint(sign_note(checkpoint.text, [foreign]), [foreign.verifier])
    with pytest.raises(NoteRefused, match="no given key of"):
        open_checkpoint(
            sign_note(checkpoint.text, [WITNESS], 1), [KEY.verifier], [WITNESS.verifier]
        )


@pytest.mark.parametrize(
    "text",
    ["log\n", "log\n1\n", "log\n01\nAAAA\n", "log\n-1\nAAAA\n", "log\n1\nAAAA\n", "\n1\nAAAA\n"],
)
def test_a_malformed_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NoteRefused):
        parse_checkpoint(text)
