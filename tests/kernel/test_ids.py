"""Ids sort by time and cannot be guessed. Of a secret, only the hash is stored."""

import hashlib
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.emails import rules as emails
from ousel.kernel.ids import (
    HANDLE_CHARACTERS,
    derive_secret,
    handle_of,
    id_with_owner,
    is_secret,
    matches_hash,
    new_handle,
    new_id,
    new_secret,
    owner_of_id,
    repeatable_id,
    repeatable_secret,
    secret_hash,
    tail_of_id,
    time_of_id,
    without_secrets,
)
from ousel.oauth.rules import CODE_PREFIX
from ousel.oauth.service import token_prefix
from ousel.resets import rules as resets
from tests.support.clock import TIME_MICROS_MAX

BITS_A_CHARACTER = 5
TAIL = re.compile(r"[0-9a-v]+", re.ASCII)

moments = st.integers(min_value=0, max_value=TIME_MICROS_MAX)


@given(moments)
def test_an_id_is_its_prefix_and_a_tail_for_urls(moment: int) -> None:
    """An id begins with what it names, and its tail has 26 lower-case letters and digits."""
    name = new_id("acct_", lambda: moment)

    assert name.startswith("acct_")
    assert TAIL.fullmatch(name.removeprefix("acct_"))
    assert len(name) == len("acct_") + 26


@given(moments)
def test_an_id_tells_when_it_was_created(moment: int) -> None:
    """Its time is exact to the millisecond."""
    assert time_of_id(new_id("tr_", lambda: moment)) == moment - moment % 1_000


@given(moments)
def test_a_longer_id_tells_whose_it_is(moment: int) -> None:
    """It begins with the id itself, so it sorts by time too; an id alone does not tell."""
    account_id, alone = new_id("acct_", lambda: moment), new_id("ch_", lambda: moment)

    longer = id_with_owner(alone, account_id)

    assert longer.startswith(alone)
    assert owner_of_id(longer) == account_id
    assert owner_of_id(alone) is None
    assert owner_of_id("") is None


@given(moments, moments)
def test_ids_sort_by_the_millisecond_of_their_making(one: int, other: int) -> None:
    """An id made in a later millisecond sorts after, whatever its random part."""
    earlier, later = sorted((one, other))
    if earlier // 1_000 < later // 1_000:
        assert new_id("tr_", lambda: earlier) < new_id("tr_", lambda: later)


def test_ids_of_one_moment_share_the_time_and_nothing_else() -> None:
    """In one millisecond 80 bits differ at random: no two ids are alike, nor numbered."""
    tails = [new_id("", lambda: 1_767_225_600_000_000) for _ in range(10_000)]

    assert len(set(tails)) == len(tails)
    assert len({tail[:9] for tail in tails}) == 1
    for position in range(10, 25):
        assert len({tail[position] for tail in tails}) == 32
    assert tails != sorted(tails)


def test_the_random_tail_has_80_bits() -> None:
    """128 bits in all, of which 48 tell the time."""
    assert len(new_id("", lambda: 0)) * BITS_A_CHARACTER >= 128
    assert new_id("", lambda: 0).startswith("0" * 9)


def test_a_secret_hides_at_least_160_bits_behind_its_handle() -> None:
    """What follows the public handle has 160 random bits, in characters that any header takes."""
    secrets = [new_secret("sk_live_") for _ in range(2_000)]
    tails = [secret.removeprefix("sk_live_") for secret in secrets]

    assert all(secret.startswith("sk_live_") for secret in secrets)
    assert all(TAIL.fullmatch(tail) for tail in tails)
    assert all((len(tail) - HANDLE_CHARACTERS) * BITS_A_CHARACTER >= 160 for tail in tails)
    assert len({tail[:HANDLE_CHARACTERS] for tail in tails}) == len(tails)
    assert len({tail[HANDLE_CHARACTERS:] for tail in tails}) == len(tails)
    for position in range(len(tails[0])):
        assert len({tail[position] for tail in tails}) == 32


def test_a_secret_is_known_by_its_shape_before_anyone_looks_it_up() -> None:
    """A secret has its kind's prefix and 40 characters; anything else is not worth a look-up."""
    secret = new_secret("sk_live_")

    assert is_secret(secret, "sk_live_")
    assert not is_secret(secret, "sk_test_")
    for wrong in ("", "sk_live_", secret[:-1], secret + "0", secret.upper(), secret + "\n"):
        assert not is_secret(wrong, "sk_live_")


def test_a_handle_is_the_prefix_and_the_first_eight_characters() -> None:
    """The public part names a key and opens nothing."""
    secret = new_secret("sk_live_")

    assert handle_of(secret) == secret[: len("sk_live_") + 8]


@pytest.mark.parametrize(
    "prefix",
    [
        *("sk_live_", "sk_test_", token_prefix("live"), token_prefix("test"), "os_"),
        *(CODE_PREFIX, emails.LINK_PREFIX, resets.LINK_PREFIX, "zz_"),
    ],
)
def test_each_kind_of_secret_is_cut_down_to_its_handle(prefix: str) -> None:
    """Wherever it is in a text; this holds for kinds that do not exist yet, too."""
    secret = new_secret(prefix)
    line = without_secrets(f'{{"path": "/x/{secret}/y", "error": "{secret}{secret}"}}')
    shown = f"{handle_of(secret)}..."
    assert line == f'{{"path": "/x/{shown}/y", "error": "{shown}{shown}"}}'


def test_ids_and_hashes_are_not_cut_down() -> None:
    """They are no secrets."""
    ids = [new_id(prefix, lambda: 0) for prefix in ("acct_", "tr_", "ch_", "app_", "req_")]
    harmless = f"{ids} {'0a' * 32}"
    assert without_secrets(harmless) == harmless


def test_a_derived_secret_is_found_again_by_its_handle_and_its_parent_alone() -> None:
    """It has the form of a secret; another parent or another handle gives another."""
    parents = [new_secret("os_") for _ in range(2)]
    handles = [new_handle("sk_test_") for _ in range(2)]
    secrets = [derive_secret(handle, parent) for handle in handles for parent in parents]

    assert len({secret.removeprefix("sk_test_")[8:] for secret in secrets}) == 4
    assert all(is_secret(secret, "sk_test_") for secret in secrets)
    assert [handle_of(secret) for secret in secrets[::2]] == handles
    assert derive_secret(handles[0], parents[0]) == secrets[0]


def test_a_repeated_secret_depends_on_all_that_it_was_made_for() -> None:
    """It has the form of a secret; another parent, purpose or prefix gives another."""
    parents = [new_secret("fs_") for _ in range(2)]
    cases = list(itertools.product(("sk_test_", "sk_live_"), parents, ("issue", "rotate")))
    secrets = [repeatable_secret(*case) for case in cases]

    assert len({secret[len("sk_test_") :] for secret in secrets}) == len(cases)
    assert all(is_secret(secret, case[0]) for secret, case in zip(secrets, cases, strict=True))
    assert [repeatable_secret(*case) for case in cases] == secrets


def test_a_repeated_id_has_its_own_time_and_the_same_tail() -> None:
    """Another parent or purpose gives another tail."""
    cases = list(itertools.product(("a", "b"), ("create Shop", "create Till")))
    early = [repeatable_id("app_", lambda: 1_000_000, *case) for case in cases]
    late = [repeatable_id("app_", lambda: 2_000_000, *case) for case in cases]

    assert [tail_of_id(each) for each in early] == [tail_of_id(each) for each in late]
    assert len({tail_of_id(each) for each in early}) == len(cases)
    assert {time_of_id(each) for each in late} == {2_000_000}
    assert len(early[0]) == len(new_id("app_", lambda: 0))


def test_only_a_sha_256_of_a_secret_is_kept() -> None:
    """The hash is SHA-256 of the whole secret, prefix included."""
    assert secret_hash("sk_live_abc") == hashlib.sha256(b"sk_live_abc").hexdigest()
    hashes = [secret_hash(f"{kind}abc") for kind in ("sk_live_", "sk_test_", "")]
    assert all(one != other for one, other in itertools.combinations(hashes, 2))
    assert matches_hash(hashes[0], "sk_live_abc")
    assert not matches_hash(hashes[0], "sk_test_abc")
