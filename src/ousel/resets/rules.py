"""Reset links: who gives them out, and how long they are valid."""

from typing import Final, Literal

import msgspec

LINK_SECONDS: Final = 3600
LINK_PREFIX: Final = "rl_"

# A link by mail removes no second factor. The operator's link removes all of them.
LinkKind = Literal["mail", "operator"]


class ResetLink(msgspec.Struct, frozen=True):
    """A link that sets a new password, once."""

    account_id: str
    kind: LinkKind
    link_hash: str
    created_at: int
    expires_at: int

    def is_valid_at(self, now: int) -> bool:
        """Return whether the link can still be used."""
        return now < self.expires_at
