"""The options of a passkey, which a script of the page passes to the browser."""

from collections.abc import Awaitable
from typing import Any

from ousel.http.messages import Answer, json_answer
from ousel.kernel.errors import InvalidField
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.attempts import TooManyAttempts
from ousel.people.sign_in import SignInEnded


async def options_answer(options: Awaitable[dict[str, Any]]) -> Answer:
    """Return options for a script, or the reason why there are none."""
    try:
        return json_answer(await options)
    except (InvalidField, PasskeyNotAccepted, SignInEnded, TooManyAttempts) as refusal:
        return json_answer({"detail": refusal.detail}, refusal.status)
