"""The page on which anyone checks a receipt, and reads in words what it proves."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from ousel.http.messages import Answer
from ousel.sealed_log.log import SealedLog
from ousel.sealed_log.notes import NoteRefused, VerifierKey, parse_verifier_key
from ousel.sealed_log.receipt_check import check_receipt
from ousel.sealed_log.receipt_sentences import not_proven, proven
from ousel.sealed_log.receipts import ReceiptRefused
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

VERIFY: Final = "/verify"


class VerifyPages:
    """Serves the page that checks receipts."""

    def __init__(self, pages: PageRenderer, log: SealedLog) -> None:
        """Check receipts of this log, unless the visitor gives another log's key."""
        self._pages = pages
        self._log = log

    def routes(self) -> list[PageRoute]:
        """Return the routes of the page."""
        return [
            PageRoute(method="GET", path=VERIFY, answer=self.show_form, for_everyone=True),
            PageRoute(
                method="POST",
                path=VERIFY,
                answer=self.check,
                for_everyone=True,
                may_have_files=True,
            ),
        ]

    async def show_form(self, visit: Visit) -> Answer:
        """Ask for a receipt."""
        return self._page(visit)

    async def check(self, visit: Visit) -> Answer:
        """Say what the receipt proves and what it does not, or why it proves nothing."""
        # Browsers send the lines of a text area with CR LF.
        text = visit.form.get("receipt", "").replace("\r\n", "\n")
        content = (visit.form.get("file", "") or text.lstrip()).encode()
        if not content:
            return self._page(visit, error="Choose the file of a receipt, or paste its text.")
        try:
            checked = check_receipt(content, self._keys(visit), self._log.witness_keys)
        except (ReceiptRefused, NoteRefused) as refused:
            return self._page(visit, refused=str(refused))
        return self._page(
            visit, checked=checked, proven=proven(checked), not_proven=not_proven(checked)
        )

    def _keys(self, visit: Visit) -> Sequence[VerifierKey]:
        given = visit.form.get("key", "").strip()
        return [parse_verifier_key(given)] if given else self._own_keys()

    def _own_keys(self) -> Sequence[VerifierKey]:
        key = self._log.key.key
        return [] if key is None else key.verifiers

    def _page(self, visit: Visit, **values: Any) -> Answer:
        is_good = not {"error", "refused"} & values.keys()
        keys = self._own_keys()
        shown: dict[str, Any] = {"checked": None, "refused": None, "error": None, **values}
        return self._pages.render(
            "portal/verify.html",
            visit,
            status=HTTPStatus.OK if is_good else HTTPStatus.BAD_REQUEST,
            own_key=str(keys[0]) if keys else None,
            **shown,
        )
