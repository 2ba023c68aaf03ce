"""The clients: for a partner key or a user token, synchronous or for asyncio."""

from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import httpx2

from ousel_client.accounts import Accounts
from ousel_client.charges import Charges
from ousel_client.connect import Connect
from ousel_client.credentials import Secret
from ousel_client.drivers import Address, AsyncDriver, SyncDriver
from ousel_client.exchange import Steps
from ousel_client.operations import Driver, Operation, Resource
from ousel_client.records import Balance, Holder, OwnAccount
from ousel_client.retrying import CallSettings, RetryPolicy
from ousel_client.sandbox import Sandbox
from ousel_client.transfers import Transfers

TIMEOUT_SECONDS: Final = 30.0
DEFAULT_RETRY: Final = RetryPolicy()


class User(Resource[Driver]):
    """What an app may read with a user token."""

    @Operation
    def me(self) -> Steps[Holder]:
        """Return the person's account. Needs the scope `profile`."""
        return self._read(Holder, "/user/me")

    @Operation
    def balance(self) -> Steps[Balance]:
        """Return the person's balance. Needs the scope `balance`."""
        return self._read(Balance, "/user/balance")


class Partner(Connect[Driver]):
    """What a partner may do with a partner key."""

    def __init__(self, driver: Driver, settings: CallSettings, portal_url: str) -> None:
        """Send requests through this driver; people connect at this portal."""
        super().__init__(driver, settings, portal_url)
        self.accounts: Accounts[Driver] = Accounts(driver, settings)
        self.transfers: Transfers[Driver] = Transfers(driver, settings)
        self.charges: Charges[Driver] = Charges(driver, settings)
        self.sandbox: Sandbox[Driver] = Sandbox(driver, settings)

    @Operation
    def me(self) -> Steps[OwnAccount]:
        """Return the account that owns the key, and the app that the key belongs to."""
        return self._read(OwnAccount, "/me")

    @Operation
    def balance(self) -> Steps[Balance]:
        """Return the balance of the account that owns the key."""
        return self._read(Balance, "/balance")

    def user(self, token: str) -> User[Driver]:
        """Return a client for this user token that shares the connections of this one."""
        return User(self._driver, replace(self._settings, credential=Secret(token)))


class SyncConnections(Resource[SyncDriver]):
    """Keeps connections open until it is closed."""

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def __enter__(self) -> Self:
        """Return the client. It is closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()


class AsyncConnections(Resource[AsyncDriver]):
    """Keeps connections open until it is closed."""

    async def close(self) -> None:
        """Close the connections."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        """Return the client. It is closed at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.close()


class Client(Partner[SyncDriver], SyncConnections):
    """The synchronous client for a partner key. Threads may share it."""

    def __init__(
        self,
        key: str,
        *,
        base_url: str,
        portal_url: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = DEFAULT_RETRY,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Call the server at this address, such as https://pay.example.com/v1, with this key.

        If `portal_url` is not given, the portal is on the same host.
        """
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        settings = CallSettings(credential=Secret(key), policy=retry)
        driver = SyncDriver(address, transport)
        super().__init__(driver, settings, portal_url or address.origin)


class AsyncClient(Partner[AsyncDriver], AsyncConnections):
    """The asyncio client for a partner key. Tasks may share it. Use it in one event loop."""

    def __init__(
        self,
        key: str,
        *,
        base_url: str,
        portal_url: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = DEFAULT_RETRY,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Call the server at this address, such as https://pay.example.com/v1, with this key.

        If `portal_url` is not given, the portal is on the same host.
        """
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        settings = CallSettings(credential=Secret(key), policy=retry)
        driver = AsyncDriver(address, transport)
        super().__init__(driver, settings, portal_url or address.origin)


class UserClient(User[SyncDriver], SyncConnections):
    """The synchronous client for a user token. It needs no partner key."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = DEFAULT_RETRY,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Call the server at this address with this token."""
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        driver = SyncDriver(address, transport)
        super().__init__(driver, CallSettings(credential=Secret(token), policy=retry))


class AsyncUserClient(User[AsyncDriver], AsyncConnections):
    """The asyncio client for a user token. It needs no partner key. Use it in one event loop."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = DEFAULT_RETRY,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Call the server at this address with this token."""
        address = Address(base_url=base_url, timeout_seconds=timeout_seconds)
        driver = AsyncDriver(address, transport)
        super().__init__(driver, CallSettings(credential=Secret(token), policy=retry))
