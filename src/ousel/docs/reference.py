"""The API reference: the OpenAPI document, and pages generated from it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from ousel.api.polling import TaggedAnswer, tag_answer
from ousel.api.route import Call, NoBody, NoQuery, Route
from ousel.docs.collection import postman_collection
from ousel.docs.examples import programs
from ousel.docs.operations import Operation, operations_of
from ousel.docs.trial import Trials, TrialView
from ousel.http.messages import Answer, RawHeader
from ousel.http.refusals import NotFound
from ousel.kernel.errors import all_refusals
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

_COLLECTION_NAME: Final = b"ousel.postman_collection.json"


class ApiReference:
    """Serves the OpenAPI document and the pages about endpoints and errors."""

    def __init__(
        self,
        find_document: Callable[[], dict[str, Any]],
        routes: Sequence[Route],
        pages: PageRenderer,
        trials: Trials | None,
    ) -> None:
        """Serve the reference of these routes; `find_document` returns their OpenAPI document.

        Only a sandbox has trials.
        """
        self._find_document = find_document
        self._routes = routes
        self._pages = pages
        self._trials = trials

    @cached_property
    def operations(self) -> list[Operation]:
        """The endpoints in the order of the OpenAPI document."""
        return operations_of(self._find_document(), self._routes)

    @cached_property
    def _document(self) -> TaggedAnswer:
        return _tagged(msgspec.json.encode(self._find_document()))

    @cached_property
    def _collection(self) -> TaggedAnswer:
        disposition = b'attachment; filename="%b"' % _COLLECTION_NAME
        content = msgspec.json.encode(postman_collection(self.operations))
        return _tagged(content, (b"content-disposition", disposition))

    def routes(self, base: str) -> list[Route]:
        """Return the routes of the OpenAPI document and of the collection."""
        return [
            Route(
                method="GET",
                path=f"{base}/openapi.json",
                endpoint=self.openapi,
                name="openapi",
                summary="The OpenAPI document",
                access="public",
                in_reference=False,
            ),
            Route(
                method="GET",
                path=f"{base}/collection.json",
                endpoint=self.collection,
                name="collection",
                summary="A Postman collection of all calls",
                access="public",
                in_reference=False,
            ),
        ]

    def page_routes(self) -> list[PageRoute]:
        """Return the routes of the pages."""
        path = "/docs/api/{name}"
        routes = [
            PageRoute(method="GET", path="/docs/api", answer=self.endpoints, for_everyone=True),
            PageRoute(method="GET", path=path, answer=self.endpoint, for_everyone=True),
            PageRoute(method="GET", path="/docs/errors", answer=self.errors, for_everyone=True),
        ]
        if self._trials is not None:
            routes += [
                PageRoute(method="POST", path=path, answer=self.run),
                PageRoute(method="POST", path=f"{path}/key", answer=self.issue_key),
            ]
        return routes

    async def openapi(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Return the OpenAPI document, or 304 if the caller has it already."""
        return self._document.answer_to(call.headers)

    async def collection(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Return the collection as a file, or 304 if the caller has it already."""
        return self._collection.answer_to(call.headers)

    async def endpoints(self, visit: Visit) -> Answer:
        """List every endpoint, with a link to its page."""
        return self._pages.render("docs/reference.html", visit, operations=self.operations)

    async def endpoint(self, visit: Visit) -> Answer:
        """Show one endpoint: examples, fields, answers and errors."""
        operation = self._operation(visit)
        view = None if self._trials is None else await self._trials.view(visit, operation)
        return self._page(visit, operation, view)

    async def run(self, visit: Visit) -> Answer:
        """Make the call, and show its answer on the page of the endpoint."""
        assert self._trials is not None
        operation = self._operation(visit)
        return self._page(visit, operation, await self._trials.run(visit, operation))

    async def issue_key(self, visit: Visit) -> Answer:
        """Issue a docs key, and show the page again, filled with it."""
        assert self._trials is not None
        operation = self._operation(visit)
        await self._trials.keys.issue(visit, visit.form.get("client_id", ""))
        return see_other(f"/docs/api/{operation.name}")

    def _operation(self, visit: Visit) -> Operation:
        for operation in self.operations:
            if operation.name == visit.path["name"]:
                return operation
        raise NotFound("There is no such endpoint.")

    def _page(self, visit: Visit, operation: Operation, view: TrialView | None) -> Answer:
        key = None if view is None else view.key
        return self._pages.render(
            "docs/endpoint.html",
            visit,
            operation=operation,
            programs=programs(operation.call, key),
            trial=view,
        )

    async def errors(self, visit: Visit) -> Answer:
        """Show every error code with its cause and cure."""
        refusals = sorted(all_refusals(), key=lambda refusal: (refusal.status, refusal.code))
        return self._pages.render("docs/errors.html", visit, refusals=refusals)


def _tagged(content: bytes, *headers: RawHeader) -> TaggedAnswer:
    return tag_answer(Answer(200, content, headers=((b"cache-control", b"no-cache"), *headers)))
