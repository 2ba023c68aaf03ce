"""What Ousel writes to people about their passwords, and about what happened to their accounts.

A notice tells what happened, when and from where, and what to do if it was not the holder. It
contains no secret, and nothing that others wrote except a username or the name of an app.
"""

from typing import Final, Literal

import msgspec

from ousel.mail.rules import Letter

NoticeKind = Literal[
    "signed_in",
    "password_changed",
    "password_reset",
    "second_factor_turned_on",
    "second_factor_turned_off",
    "passkey_added",
    "passkey_removed",
    "passkey_refused",
    "recovery_link_issued",
    "key_issued",
    "key_rotated",
    "app_connected",
]


class _Notice(msgspec.Struct, frozen=True):
    subject: str
    fact: str  # with {username} and {detail}
    advice: str  # what to do if it was not the holder
    link: tuple[str, str]  # the words on it, and its path


_OPERATOR: Final = "If you cannot sign in, ask the operator of this server to freeze the account."
_CHANGE_PASSWORD: Final = (
    "If it was not you, somebody knows your password or has one of your passkeys. Under Settings, "
    "change the password, which also signs out all other devices, and remove passkeys that are not "
    f"yours. {_OPERATOR}"
)
_SETTINGS: Final = ("Open your settings", "/settings")
_FORGOT: Final = ("Set a new password", "/forgot")
_PASSKEYS: Final = ("See your passkeys", "/settings/passkeys")
_APPS: Final = ("See your apps and their keys", "/apps")

_NOTICES: Final[dict[NoticeKind, _Notice]] = {
    "signed_in": _Notice(
        "New sign-in to your Ousel account",
        "Somebody signed in to your Ousel account @{username} on a new device, or on one that was "
        "not used since the password was reset.",
        _CHANGE_PASSWORD,
        _SETTINGS,
    ),
    "password_changed": _Notice(
        "The password of your Ousel account was changed",
        "The password of your Ousel account @{username} was changed, and all other sessions were "
        "signed out.",
        f"If it was not you, set a new password at once. {_OPERATOR}",
        _FORGOT,
    ),
    "password_reset": _Notice(
        "The password of your Ousel account was changed",
        "Somebody used {detail} to set a new password for your Ousel account @{username}. All "
        "sessions were signed out.",
        "If it was not you, somebody else has got that link. Secure your mailbox, then set a new "
        f"password. {_OPERATOR}",
        _FORGOT,
    ),
    "second_factor_turned_on": _Notice(
        "An authenticator app was added to your Ousel account",
        "Codes from the new app can now be used, after the password, to sign in to your Ousel "
        "account @{username}.",
        "If it was not you, somebody used your account. Set a new password, and ask the operator "
        "of this server to remove that app.",
        _FORGOT,
    ),
    "second_factor_turned_off": _Notice(
        "A second factor was removed from your Ousel account",
        "This was removed from your Ousel account @{username}: {detail}.",
        f"If it was not you, change your password and set up two-factor sign-in again. {_OPERATOR}",
        _SETTINGS,
    ),
    "passkey_added": _Notice(
        "A passkey was added to your Ousel account",
        "Whoever has the new passkey can sign in to your Ousel account @{username} with it, "
        "without the password.",
        f"If it was not you, remove the passkey, then change your password. {_OPERATOR}",
        _PASSKEYS,
    ),
    "passkey_removed": _Notice(
        "A passkey of your Ousel account was removed",
        "A passkey can no longer be used to sign in to your Ousel account @{username}.",
        f"If it was not you, change your password and look at your other passkeys. {_OPERATOR}",
        _PASSKEYS,
    ),
    "passkey_refused": _Notice(
        "A passkey of your Ousel account was refused",
        "Somebody tried to sign in to your Ousel account @{username} with a passkey that may be a "
        "copy: each use raises its counter, but the counter was not higher than last time. Nobody "
        "was signed in.",
        "If it was not you, somebody has a copy of the passkey. In any case, remove it under "
        "Settings, and add a new one. The security events there show its name.",
        _PASSKEYS,
    ),
    "recovery_link_issued": _Notice(
        "The operator has issued a link that resets your Ousel password",
        "The operator of this server has issued a link with which somebody can set a new password "
        "for your Ousel account @{username}, turn off two-factor sign-in and remove all passkeys. "
        "It works once, within an hour.",
        "If you have not asked for it, tell the operator at once. If you can, change your "
        "password: then the link no longer works.",
        _SETTINGS,
    ),
    "key_issued": _Notice(
        "A key was issued for your Ousel account",
        "The key {detail} was issued. Whoever has it can send money from your Ousel account "
        "@{username}.",
        f"If it was not you, revoke the key, then change your password. {_OPERATOR}",
        _APPS,
    ),
    "key_rotated": _Notice(
        "A key of your Ousel account was rotated",
        "A key was replaced: {detail}. Whoever has the new one can send money from your Ousel "
        "account @{username}.",
        f"If it was not you, revoke the new key, then change your password. {_OPERATOR}",
        _APPS,
    ),
    "app_connected": _Notice(
        "An app was connected to your Ousel account",
        "This app may now read your Ousel account @{username}: {detail}. It cannot move money.",
        f"If it was not you, disconnect the app, then change your password. {_OPERATOR}",
        ("See your connections", "/connections"),
    ),
}


def notice_letter(
    kind: NoticeKind, username: str, detail: str, occasion: str, portal_url: str
) -> Letter:
    """Return the notice about an event; `occasion` says when it happened, and from where."""
    notice = _NOTICES[kind]
    words, path = notice.link
    return Letter(
        subject=notice.subject,
        opening=(notice.fact.format(username=username, detail=detail), occasion),
        link=(words, f"{portal_url}{path}"),
        closing=(notice.advice,),
    )


def reset_letter(username: str, link: str) -> Letter:
    """Return the letter with the link that sets a new password."""
    return Letter(
        subject="Set a new password",
        opening=(
            (
                f"Somebody asked for a new password for your Ousel account @{username}. If it was "
                "you, open this page and choose one:"
            ),
        ),
        link=("Set a new password", link),
        closing=(
            (
                "The link works once, within an hour. A newer link replaces it. If two-factor "
                "sign-in is on, it stays on: you still need a code or a passkey to sign in."
            ),
            (
                "If it was not you, ignore this message, and give the link to nobody. Your "
                "password has not changed."
            ),
        ),
    )


def money_letter(username: str, amount: str, sender: str, link: str, settings: str) -> Letter:
    """Return the notice about money that a person has sent."""
    return Letter(
        subject=f"You have received {amount}",
        opening=(f"@{sender} has sent {amount} to your Ousel account @{username}.",),
        link=("See the movement", link),
        closing=(
            (
                "If you do not know the sender, you need not do anything. Beware of people who "
                "ask you to send money on, or to send it back to another account."
            ),
            f"You can turn these messages off: {settings}",
        ),
    )
