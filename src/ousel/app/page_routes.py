"""The routes of the pages: which pages there are, and the services that they use."""

from ousel.app.services import Services
from ousel.charges.pages import CheckoutPages
from ousel.kernel.settings import Settings
from ousel.lab.pages import LabPages
from ousel.oauth.pages import ConnectPages
from ousel.portal.activity import ActivityPages
from ousel.portal.app_addresses import AddressPages
from ousel.portal.app_editor import AppEditor
from ousel.portal.apps import AppPages
from ousel.portal.charges import ChargePages
from ousel.portal.connections import ConnectionPages
from ousel.portal.emails import EmailPages
from ousel.portal.keys import KeyPages
from ousel.portal.passkeys import PasskeyPages
from ousel.portal.recovery import RecoveryPages
from ousel.portal.settings import SettingsPages
from ousel.portal.sign_in import SignInPages
from ousel.portal.verify import VerifyPages
from ousel.sandbox.pages import SandboxPages
from ousel.site.cookies import Cookies
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute
from ousel.transfers.pages import SendPages


def page_routes(
    services: Services, settings: Settings, pages: PageRenderer, cookies: Cookies
) -> list[PageRoute]:
    """Return the routes of the pages for partners and people."""
    return [
        *_sandbox_pages(services, settings, pages),
        *_people_pages(services, pages, cookies),
        *_money_pages(services, settings, pages),
        *_partner_pages(services, pages, cookies),
    ]


def _sandbox_pages(services: Services, settings: Settings, pages: PageRenderer) -> list[PageRoute]:
    """Return the pages that only a sandbox has."""
    if not settings.sandbox:
        return []
    sandbox = SandboxPages(
        pages,
        services.outbox,
        services.accounts,
        services.posting_queue,
        services.attempts,
        services.clock,
    )
    return [
        *sandbox.routes(),
        *LabPages(pages, services.lab, settings).routes(),
    ]


def _people_pages(services: Services, pages: PageRenderer, cookies: Cookies) -> list[PageRoute]:
    """Return the pages for signing in, for the settings of an account and for its connections."""
    account_settings = SettingsPages(
        pages,
        services.account_settings,
        services.sign_in,
        services.second_factors,
        accepts_mail=services.outbox.accepts_mail,
    )
    return [
        *SignInPages(pages, services.sign_in, services.passkey_sign_in, cookies).routes(),
        *RecoveryPages(pages, services.recovery).routes(),
        *PasskeyPages(pages, services.passkeys, services.account_settings).routes(),
        *EmailPages(pages, services.emails).routes(),
        *account_settings.routes(),
        *ConnectPages(pages, services.connect, services.clock).routes(),
        *ConnectionPages(pages, services.connections).routes(),
    ]


def _money_pages(services: Services, settings: Settings, pages: PageRenderer) -> list[PageRoute]:
    """Return the pages for sending money, paying charges, seeing activity and checking receipts."""
    clock = services.clock
    activity = ActivityPages(
        pages, services.history, services.receipts, services.emails, settings.portal_url
    )
    checkout = CheckoutPages(pages, services.checkouts, services.charges, settings, clock)
    return [
        *activity.routes(),
        *SendPages(pages, services.sending, clock, settings.confirm_sending_over).routes(),
        *checkout.routes(),
        *VerifyPages(pages, services.log).routes(),
    ]


def _partner_pages(services: Services, pages: PageRenderer, cookies: Cookies) -> list[PageRoute]:
    """Return the pages on which partners manage their apps, keys and charges."""
    editor = AppEditor(pages, services.app_overviews)
    return [
        *AppPages(pages, services.apps, services.app_overviews, editor, cookies).routes(),
        *KeyPages(pages, services.keys, editor, services.clock, cookies).routes(),
        *AddressPages(services.apps, editor).routes(),
        *ChargePages(pages, services.apps, services.charges, services.checkouts).routes(),
    ]
