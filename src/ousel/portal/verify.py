"""The page on which anyone checks a receipt, and reads in words what it proves."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from ousel.http.messages import Answer
from ousel.sealed_log.log import SealedLog
from ousel.sealed_log.notes import NoteRefused, VerifierKey, parse_verifier_key
from ousel.sealed_log.receipt_check import check_receipt
from ousel.sealed_log.receipt_sentences import (
    proven_sentences,
    signed_names,
    unproven_sentences,
)
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
        # Browsers send lines of a text area with CR LF. People paste too few or too many of them.
        text = visit.form.get("receipt", "").replace("\r\n", "\n").strip()
        content = (visit.form.get("file", "") or (text and f"{text}\n")).encode()
        if not content:
            return self._page(visit, error="Choose the file of a receipt, or paste its text.")
        shown: dict[str, Any] = {}
        try:
            keys, shown["is_own_key"] = self._choose_keys(visit.form.get("key", "").strip())
            shown["checked_with"] = (
                "the key of this log"
                if shown["is_own_key"]
                else f"the key {keys[0]}, which you gave"
            )
            checked = check_receipt(content, keys, self._log.witness_keys)
        except (ReceiptRefused, NoteRefused) as refused:
            return self._page(visit, refused=str(refused), **shown)
        return self._page(
            visit,
            checked=checked,
            proven=proven_sentences(checked),
            signed_names=signed_names(checked),
            not_proven=unproven_sentences(checked),
            **shown,
        )

    def _choose_keys(self, given: str) -> tuple[Sequence[VerifierKey], bool]:
        """Return the keys to check with, and whether they are keys of this server's log.

        Anyone can make a key that bears the name of this log, so such a key is refused.
        """
        own = self._own_keys()
        if not given:
            if not own:
                raise ReceiptRefused("this server has no key of its own, so give the verifier key")
            return own, True
        key = parse_verifier_key(given)
        is_own = key.public in {each.public for each in own}
        if own and not is_own and key.name == self._log.key_holder.origin:
            raise ReceiptRefused(
                f"this server does not know this key as one of the log {key.name}. If its operator"
                " has given it to you, check the receipt with 'ousel receipt check'"
            )
        return [key], is_own

    def _own_keys(self) -> Sequence[VerifierKey]:
        key = self._log.key_holder.key
        return [] if key is None else key.verifiers

    def _page(self, visit: Visit, **values: Any) -> Answer:
        is_good = not {"error", "refused"} & values.keys()
        keys = self._own_keys()
        shown: dict[str, Any] = dict.fromkeys(("checked", "refused", "error", "checked_with"))
        return self._pages.render(
            "portal/verify.html",
            visit,
            status=HTTPStatus.OK if is_good else HTTPStatus.BAD_REQUEST,
            own_key=str(keys[0]) if keys else None,
            **shown | values,
        )
