"""The clients: a partner's, with its key, and a user's, with a token; waiting and awaiting."""

from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import httpx2

from ousel_client.accounts import Accounts
from ousel_client.charges import Charges
from ousel_client.connect import Connecting
from ousel_client.credentials import Secret
from ousel_client.drivers import Address, AsyncDriver, SyncDriver
from ousel_client.exchange import Steps
from ousel_client.operations import Driver, Operation, Resource
from ousel_client.records import Balance, Holder, OwnAccount
from ousel_client.retrying import Conduct, RetryPolicy
from ousel_client.sandbox import Sandbox
from ousel_client.transfers import Transfers

TIMEOUT_SECONDS: Final = 30.0
PATIENT: Final = RetryPolicy()


class User(Resource[Driver]):
    """What a user token lets an app read of a person's account."""

    @Operation
    def me(self) -> Steps[Holder]:
        """Return the person's account; needs the scope profile."""
        return self._read(Holder, "/user/me")

    @Operation
    def balance(self) -> Steps[Balance]:
        """Return the person's balance; needs the scope balance."""
        return self._read(Balance, "/user/balance")


class Partner(Connecting[Driver]):
    """What a partner key lets a partner do."""

    def __init__(self, driver: Driver, conduct: Conduct, portal_url: str) -> None:
        """Call through this driver; people connect at this portal."""
        super().__init__(driver, conduct, portal_url)
        self.accounts: Accounts[Driver] = Accounts(driver, conduct)
        self.transfers: Transfers[Driver] = Transfers(driver, conduct)
        self.charges: Charges[Driver] = Charges(driver, conduct)
        self.sandbox: Sandbox[Driver] = Sandbox(driver, conduct)

    @Operation
    def me(self) -> Steps[OwnAccount]:
        """Return the key owner's account, and the app whose key this is."""
        return self._read(OwnAccount, "/me")

    @Operation
    def balance(self) -> Steps[Balance]:
        """Return the key owner's balance."""
        return self._read(Balance, "/balance")

    def user(self, token: str) -> User[Driver]:
        """Return what this user token lets the app read, over the same connections."""
        return User(self._driver, replace(self._conduct, credential=Secret(token)))


class Waiting(Resource[SyncDriver]):
    """Holds connections open until it is closed."""

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def __enter__(self) -> Self:
        """Use the client for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()


class Awaiting(Resource[AsyncDriver]):
    """Holds connections open until it is closed."""

    async def close(self) -> None:
        """Close the connections."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        """Use the client for the length of a block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.close()


class Client(Partner[SyncDriver], Waiting):
    """A partner's client; threads may share it."""

    def __init__(
        self,
        key: str,
        *,
        base_url: str,
        portal_url: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = PATIENT,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Call the server at this address, such as https://pay.example.com/v1, with this key.

        The portal is at the same host where no other is named.
        """
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        conduct = Conduct(credential=Secret(key), policy=retry)
        driver = SyncDriver(address, transport)
        super().__init__(driver, conduct, portal_url or address.origin)


class AsyncClient(Partner[AsyncDriver], Awaiting):
    """A partner's client for asyncio; tasks may share it."""

    def __init__(
        self,
        key: str,
        *,
        base_url: str,
        portal_url: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = PATIENT,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Call the server at this address, such as https://pay.example.com/v1, with this key.

        The portal is at the same host where no other is named.
        """
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        conduct = Conduct(credential=Secret(key), policy=retry)
        driver = AsyncDriver(address, transport)
        super().__init__(driver, conduct, portal_url or address.origin)


class UserClient(User[SyncDriver], Waiting):
    """A client for one user token, where no partner key is at hand."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = PATIENT,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Call the server at this address with this token."""
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        driver = SyncDriver(address, transport)
        super().__init__(driver, Conduct(credential=Secret(token), policy=retry))


class AsyncUserClient(User[AsyncDriver], Awaiting):
    """A client for one user token and asyncio, where no partner key is at hand."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = PATIENT,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Call the server at this address with this token."""
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        driver = AsyncDriver(address, transport)
        super().__init__(driver, Conduct(credential=Secret(token), policy=retry))
