"""How one description of a call serves both kinds of clients.

A resource describes each of its calls once, as steps. If the resource has a `SyncDriver`,
`Operation` and `ListOperation` turn the description into a plain method. If it has an
`AsyncDriver`, they turn it into a coroutine or an asynchronous iterator.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ousel_client.decoding import Undecodable, decode_page, decode_record
from ousel_client.drivers import AsyncDriver, PageSteps, SyncDriver
from ousel_client.errors import UnexpectedAnswer
from ousel_client.exchange import Answer, Request, Steps
from ousel_client.records import Page
from ousel_client.retrying import CallSettings, send_with_retries

Driver = TypeVar("Driver", bound=SyncDriver | AsyncDriver)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Record = TypeVar("Record")


class Resource(Generic[Driver]):
    """A part of the API, with a driver of one of the two kinds."""

    def __init__(self, driver: Driver, settings: CallSettings) -> None:
        """Send requests through this driver, with this credential and retry policy."""
        self._driver = driver
        self._settings = settings

    def _answer(self, request: Request) -> Steps[Answer]:
        return send_with_retries(self._settings, request)

    def _record(self, kind: type[Record], request: Request) -> Steps[Record]:
        """Send the request, and return the record in its answer."""
        answer = yield from self._answer(request)
        return decode_answer(decode_record, kind, answer)

    def _read(self, kind: type[Record], path: str) -> Steps[Record]:
        """Return the record at a path."""
        return self._record(kind, self._get(path))

    def _pages(
        self, kind: type[Record], path: str, query: Mapping[str, str | int | None]
    ) -> PageSteps[Record]:
        """Return a function that takes a cursor and returns the steps to read the page after it."""
        given = {name: str(value) for name, value in query.items() if value is not None}

        def page_after(cursor: str | None) -> Steps[Page[Record]]:
            position = {} if cursor is None else {"cursor": cursor}
            answer = yield from self._answer(self._get(path, given | position))
            return decode_answer(decode_page, kind, answer)

        return page_after

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Request:
        return Request(
            method="GET", path=path, query=query or {}, credential=self._settings.credential
        )

    def _post(
        self,
        path: str,
        body: bytes | None = None,
        *,
        idempotency_key: str | None = None,
        repeatable: bool = True,
    ) -> Request:
        return Request(
            method="POST",
            path=path,
            headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
            body=body,
            credential=self._settings.credential,
            repeatable=repeatable,
        )


class Operation(Generic[Parameters, Result]):
    """A call that returns one result."""

    def __init__(self, describe: Callable[Concatenate[Any, Parameters], Steps[Result]]) -> None:
        """Describe the call by its steps."""
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, resource: None, owner: Any) -> Callable[..., Steps[Result]]: ...
    @overload
    def __get__(
        self, resource: Resource[SyncDriver], owner: Any
    ) -> Callable[Parameters, Result]: ...
    @overload
    def __get__(
        self, resource: Resource[AsyncDriver], owner: Any
    ) -> Callable[Parameters, Coroutine[Any, Any, Result]]: ...
    def __get__(self, resource: Any, owner: Any) -> Any:
        """Return the call as a method of this resource."""
        return bind_operation(self._describe, resource, "run")


class ListOperation(Generic[Parameters, Record]):
    """A call that returns an iterator over all pages of a list."""

    def __init__(self, describe: Callable[Concatenate[Any, Parameters], PageSteps[Record]]) -> None:
        """Describe the list by the steps that read a page."""
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, resource: None, owner: Any) -> Callable[..., PageSteps[Record]]: ...
    @overload
    def __get__(
        self, resource: Resource[SyncDriver], owner: Any
    ) -> Callable[Parameters, Iterator[Record]]: ...
    @overload
    def __get__(
        self, resource: Resource[AsyncDriver], owner: Any
    ) -> Callable[Parameters, AsyncIterator[Record]]: ...
    def __get__(self, resource: Any, owner: Any) -> Any:
        """Return the call as a method of this resource."""
        return bind_operation(self._describe, resource, "walk")


def timestamp(moment: datetime | None) -> str | None:
    """Return a time in the form that queries use. Refuse a time without a time zone."""
    if moment is not None and moment.tzinfo is None:
        raise ValueError("A time needs a time zone.")
    return None if moment is None else moment.isoformat()


def decode_answer(
    decode: Callable[[type[Record], bytes], Result], kind: type[Record], answer: Answer
) -> Result:
    """Decode the answer, or raise UnexpectedAnswer if it does not have the documented form."""
    try:
        return decode(kind, answer.body)
    except Undecodable as error:
        unexpected = UnexpectedAnswer(
            f"The answer with status {answer.status} does not have the documented form: {error}."
        )
        unexpected.in_doubt = True
        raise unexpected from error


def bind_operation(describe: Callable[..., Any], resource: Resource[Any] | None, way: str) -> Any:
    """Return a method that runs the described call, or the description if there is no resource."""
    if resource is None:
        return describe
    drive = getattr(resource._driver, way)  # noqa: SLF001 - resources hide their driver from users

    @wraps(describe)
    def call(*arguments: Any, **options: Any) -> Any:
        return drive(describe(resource, *arguments, **options))

    return call
