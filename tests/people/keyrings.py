"""Ada's authenticator, for tests that sign in with passkeys."""

from ousel.passkeys.rules import Owner
from ousel.people.account_settings import AccountSettings, AccountSettingsService
from ousel.people.audit import EventSource
from ousel.people.passkey_sign_in import PasskeySignInService
from ousel.people.passkeys import PasskeyService
from tests.people.members import HOME, Member
from tests.support.authenticator import Authenticator
from tests.support.visitor import PASSWORD


class Keyring:
    """Ada's authenticator, and how she uses it."""

    def __init__(
        self, member: Member, passkeys: PasskeyService, entrance: PasskeySignInService
    ) -> None:
        self.member = member
        self.passkeys = passkeys
        self.entrance = entrance
        self.phone = Authenticator()
        self.owner = Owner(member.account_id, "ada", "Ada")

    async def add(
        self, authenticator: Authenticator | None = None, name: str = "Phone"
    ) -> list[str]:
        """Add a passkey; return the recovery codes that come with the first factor."""
        source = self.member.first_source
        options = await self.passkeys.creation_options(self.owner, source)
        made = (authenticator or self.phone).make(options)
        codes = await self.passkeys.add(self.member.account_id, name, made, source)
        assert codes is not None
        return codes

    async def sign_in(
        self, authenticator: Authenticator | None = None, source: EventSource = HOME
    ) -> str:
        """Sign in with a passkey and nothing else; return the session's secret."""
        signed = (authenticator or self.phone).sign(await self.entrance.options(source))
        return (await self.entrance.sign_in(signed, source)).secret

    async def half_open(self) -> str:
        """Return the secret of a sign-in that waits for its second factor."""
        signed_in = await self.member.sign_in.sign_in("ada", PASSWORD, HOME)
        assert signed_in.stage == "awaits_code"
        return signed_in.secret

    async def finish(self, half_open: str, authenticator: Authenticator | None = None) -> str:
        """Finish a sign-in with a passkey; return the session's secret."""
        options = await self.entrance.second_step_options(half_open, HOME)
        signed = (authenticator or self.phone).sign(options)
        return (await self.entrance.finish(half_open, signed, HOME)).secret

    async def settings(self) -> AccountSettings:
        """Return what the settings page shows."""
        service = AccountSettingsService(self.member.database, self.member.clock)
        return await service.read(self.member.account_id)

    async def only_id(self) -> str:
        """Return the id of the only passkey."""
        [passkey] = await self.listed()
        return passkey

    async def listed(self) -> list[str]:
        """Return the ids of the passkeys."""
        return [each.id for each in (await self.settings()).passkeys]

    async def details_of(self, kind: str) -> list[str]:
        """Return the details of all events of this kind."""
        return [event.detail for event in await self.member.events() if event.kind == kind]
