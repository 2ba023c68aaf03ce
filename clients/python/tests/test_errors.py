"""The client has one exception class for each error code of the server, and no others."""

import pickle
import sys
import time
from email.utils import formatdate

import pytest

import ousel.app.ousel
from clients.python.tests.scripts import charge_json, refused, said
from ousel.kernel.errors import Refusal, all_refusals
from ousel_client import Charge, errors, refusals
from ousel_client.decoding import decode_record
from ousel_client.errors import ApiError, ConnectionFailed, Problem, WaitTimedOut
from ousel_client.exchange import Answer
from ousel_client.problems import error_from_answer, error_from_problem

# Only pages and commands use the refusals of these packages, and these codes. The API does not.
PACKAGES_OF_PAGES = (
    *("ousel.accounts", "ousel.partners", "ousel.passkeys", "ousel.people", "ousel.portal"),
)
CODES_OF_PAGES = {
    *("connect_address_wrong", "form_not_trusted", "identity_check_needed", "receipt_not_found"),
}


@pytest.fixture(scope="module")
def known() -> dict[str, type[Refusal]]:
    """The refusals of the API, by their codes."""
    assert ousel.app.ousel.__name__ in sys.modules, "importing the app imports all refusals"
    return {
        refusal.code: refusal
        for refusal in all_refusals()
        if refusal.__module__.startswith("ousel.")
        and not refusal.__module__.startswith(PACKAGES_OF_PAGES)
        and refusal.code not in CODES_OF_PAGES
    }


@pytest.fixture(scope="module")
def classes() -> dict[str, type[ApiError]]:
    """The client's exceptions, by their codes."""
    return {
        kind.code: kind
        for kind in vars(refusals).values()
        if isinstance(kind, type) and issubclass(kind, ApiError) and kind.code
    }


def test_no_code_is_missing_and_none_is_invented(
    known: dict[str, type[Refusal]], classes: dict[str, type[ApiError]]
) -> None:
    """The client has the same codes as the server."""
    assert set(classes) == set(known)


def test_each_code_has_the_name_and_the_status_that_it_has_on_the_server(
    known: dict[str, type[Refusal]], classes: dict[str, type[ApiError]]
) -> None:
    """The client's class has the same name and status as the server's."""
    for code, refusal in known.items():
        assert (classes[code].__name__, classes[code].status) == (refusal.__name__, refusal.status)


def test_an_answer_is_raised_as_the_class_of_its_code(classes: dict[str, type[ApiError]]) -> None:
    """The code selects the class, and the exception contains the fields of the answer."""
    for code, kind in classes.items():
        error = error_from_answer(refused(kind.status, code, param="to", transfer_id="tr_1"))

        assert type(error) is kind
        assert (error.code, error.status, error.detail) == (code, kind.status, "No.")
        assert (error.param, error.members) == ("to", {"transfer_id": "tr_1"})


def test_an_exception_survives_the_way_out_of_a_process(classes: dict[str, type[ApiError]]) -> None:
    """Pools of processes pickle exceptions. The copy has the same class, text and attributes."""
    problem = Problem(status=400, code="of_tomorrow", members={"transfer_id": "tr_1"})
    charge = decode_record(Charge, said(200, charge_json()).body)
    answers = [kind(problem) for kind in classes.values()]
    for error in (ConnectionFailed("gone"), WaitTimedOut(charge), ApiError(problem), *answers):
        error.idempotency_key, error.in_doubt = "mine", True

        copied = pickle.loads(pickle.dumps(error))

        assert type(copied) is type(error)
        assert (str(copied), vars(copied)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.NotAuthenticated),
        (403, errors.Forbidden),
        (404, errors.Missing),
        (409, errors.Conflict),
        (429, errors.Throttled),
        (500, errors.ServerError),
        (503, errors.ServerError),
        (599, errors.ServerError),
        (418, errors.ApiError),
    ],
)
def test_a_code_that_is_new_falls_back_to_the_status(status: int, kind: type[ApiError]) -> None:
    """An answer with an unknown code, or without one, gives the class of its status."""
    assert type(error_from_answer(refused(status, "of_tomorrow"))) is kind
    assert type(error_from_answer(Answer(status, {}, b"<html>gateway</html>"))) is kind


def test_an_oauth_error_is_read_in_its_own_form() -> None:
    """In RFC 6749 the code is `error`, and the detail `error_description`."""
    error = error_from_answer(said(400, {"error": "invalid_grant", "error_description": "Used."}))

    assert isinstance(error, refusals.InvalidGrant)
    assert (error.detail, error.members) == ("Used.", {})


def test_an_error_contains_the_request_id() -> None:
    """The exception and its text contain the request's id, for reports to the operator."""
    error = error_from_answer(said(500, {"code": "internal_error"}, x_request_id="req_7"))

    assert error.request_id == "req_7"
    assert str(error) == "500 internal_error: the server did not say why (request req_7)"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(("7", 7.0), ("0", 0.0), ("", None), ("soon", None), ("-3", None), ("1.5", None)),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ],
)
def test_retry_after_in_seconds(value: str, seconds: float | None) -> None:
    """Whole seconds are understood; a value that is neither seconds nor a date is ignored."""
    assert error_from_answer(said(429, retry_after=value)).retry_after_seconds == seconds


def test_retry_after_as_a_date() -> None:
    """A date becomes the seconds until then; a date in the past becomes 0."""
    soon = error_from_answer(said(503, retry_after=formatdate(time.time() + 90, usegmt=True)))
    past = error_from_answer(said(503, retry_after=formatdate(time.time() - 90)))

    assert soon.retry_after_seconds == pytest.approx(90, abs=5)
    assert past.retry_after_seconds == 0.0


def test_members_of_the_wrong_type_do_no_harm() -> None:
    """A field that should be text but is not counts as missing."""
    error = error_from_problem(Problem(status=400, code="invalid_amount"))
    assert isinstance(error, refusals.InvalidAmount)
    assert error_from_answer(said(400, {"code": 5, "detail": ["x"], "param": {}})).code == ""
