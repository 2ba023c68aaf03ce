"""Account numbers: check digits that catch what people mistype."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ousel.kernel.account_numbers import (
    SERIAL_MAX,
    account_number,
    check_digits_match,
    looks_like_account_number,
)
from tests.project.documents import ROOT

serials = st.integers(min_value=0, max_value=SERIAL_MAX)


def holds_as_an_iban_does(number: str) -> bool:
    """ISO 7064 as an IBAN's reader computes it, digit by digit over the rearranged text."""
    remainder = 0
    for character in number[4:] + number[:4]:
        for digit in str(int(character, 36)):
            remainder = (remainder * 10 + int(digit)) % 97
    return remainder == 1


@given(serials)
@example(0)
@example(SERIAL_MAX)
def test_check_digits_are_those_of_an_iban(serial: int) -> None:
    """A number is OU, two check digits and the serial, and an IBAN's reader agrees with it."""
    number = account_number(serial)

    assert looks_like_account_number(number)
    assert number[:2] == "OU"
    assert int(number[4:]) == serial
    assert holds_as_an_iban_does(number)
    assert check_digits_match(number)


def test_known_numbers_stay_what_they_are() -> None:
    """Numbers once given are printed somewhere: the rule can never change."""
    assert account_number(0) == "OU830000000000"
    assert account_number(1_234_567_890) == "OU291234567890"


def test_the_number_in_the_documentation_is_valid() -> None:
    """Partners who check numbers themselves try their code with the example."""
    rules = (ROOT / "docs/reference/rules.md").read_text()
    row = next(line for line in rules.splitlines() if line.startswith("| account number |"))

    assert "ISO 7064 MOD 97-10" in row
    assert [holds_as_an_iban_does(number) for number in re.findall(r"OU[0-9]+", row)] == [True]


@given(serials)
def test_every_single_wrong_digit_is_detected(serial: int) -> None:
    """One mistyped digit, among the check digits or the others, never finds an account."""
    number = account_number(serial)
    for position in range(2, len(number)):
        for digit in set("0123456789") - {number[position]}:
            mistyped = number[:position] + digit + number[position + 1 :]
            assert not check_digits_match(mistyped)


@given(serials)
def test_every_swap_of_neighbours_is_detected(serial: int) -> None:
    """Two digits swapped, the most common slip, never find an account."""
    number = account_number(serial)
    for position in range(2, len(number) - 1):
        left, right = number[position], number[position + 1]
        mistyped = number[:position] + right + left + number[position + 2 :]
        assert left == right or not check_digits_match(mistyped)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OU",
        "OU83000000000",
        "OU8300000000000",
        "ou830000000000",
        "XX830000000000",
        "OU83000000000a",
        "OU83 000000000",
        "OU830000000000\n",
        "OU83000000000\u0660",
    ],
)
def test_other_texts_do_not_have_the_shape(text: str) -> None:
    """Neither another prefix nor length, nor digits of another script."""
    assert not looks_like_account_number(text)


@pytest.mark.parametrize("serial", [-1, SERIAL_MAX + 1])
def test_a_serial_out_of_range_is_a_defect(serial: int) -> None:
    """Nobody makes a number that would not have the shape."""
    with pytest.raises(AssertionError):
        account_number(serial)


def test_check_digits_of_another_shape_are_a_defect() -> None:
    """Only a text of the shape has check digits."""
    with pytest.raises(AssertionError):
        check_digits_match("OU83")
