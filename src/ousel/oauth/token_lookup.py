"""Look-ups of user tokens, shared by requests that arrive together, and each token's last use."""

from ousel.api.callers import User
from ousel.api.refusals import InvalidToken
from ousel.database.batching import SharedReads
from ousel.database.last_uses import LastUseRecorder
from ousel.database.port import Database, Transaction
from ousel.database.sweeping import sweep
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, is_secret
from ousel.oauth import store
from ousel.oauth.rules import Token
from ousel.oauth.service import match_secret, token_prefix


class UserTokenLookup:
    """Finds the user that a token authenticates, as stored at the time of the call."""

    def __init__(self, database: Database, clock: Clock, *, mode: str) -> None:
        """Accept only tokens for this mode: live, or test in a sandbox."""
        self._database = database
        self._clock = clock
        self._mode = mode
        self._prefix = token_prefix(mode)
        self._other_prefix = token_prefix("live" if mode == "test" else "test")
        self._tokens = SharedReads(database, _tokens_by_handle)
        self._uses = LastUseRecorder(database, store.record_uses)

    async def user(self, secret: str) -> User:
        """Return the user whose token this is, or raise InvalidToken."""
        self._check_mode(secret)
        token = match_secret(await self._tokens.get(handle_of(secret)), secret)
        now = self._clock()
        if token is None or not token.is_valid_at(now):
            raise InvalidToken
        self._uses.unwritten[token.account_id, token.handle] = now
        return User(
            account_id=token.account_id,
            app_account_id=token.app_account_id,
            client_id=token.app_id,
            scopes=frozenset(token.scope.split(" ")),
            handle=token.handle,
        )

    async def record_uses(self) -> None:
        """Write when tokens were last used, in one transaction."""
        await self._uses.record()

    async def sweep(self) -> int:
        """Remove old codes and expired tokens in small steps; return how many."""
        return await sweep(
            self._database,
            lambda transaction, limit: store.sweep(transaction, self._clock(), limit),
        )

    def _check_mode(self, secret: str) -> None:
        if secret.startswith(self._other_prefix):
            server = "sandbox" if self._mode == "test" else "live server"
            raise InvalidToken(f"This is a {server}: its user tokens begin with {self._prefix}.")
        if not is_secret(secret, self._prefix):
            raise InvalidToken


async def _tokens_by_handle(transaction: Transaction, handles: list[str]) -> dict[str, list[Token]]:
    found: dict[str, list[Token]] = {handle: [] for handle in handles}
    for token in await store.tokens_by_handle(transaction, handles):
        found[token.handle].append(token)
    return found
