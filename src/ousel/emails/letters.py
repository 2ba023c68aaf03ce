"""What Ousel writes to people about their emails."""

from ousel.mail.rules import Letter


def confirmation_letter(username: str, code: str, link: str) -> Letter:
    """Return the letter whose link or code confirms the email."""
    return Letter(
        subject="Confirm your email",
        opening=(
            (
                f"Somebody asked to use this email address for the Ousel account @{username}. "
                "If it was you, type this code on the page that asks for it:"
            ),
        ),
        code=code,
        link=("Or open this page and confirm", link),
        closing=(
            "The code and the link work once, within 30 minutes.",
            (
                "If it was not you, ignore this message and give the code to nobody. As long as "
                "nobody confirms, money that is sent to your email does not go to that account."
            ),
        ),
    )


def in_use_letter(username: str, portal_url: str) -> Letter:
    """Return the letter to somebody whose email already names another account."""
    return Letter(
        subject="Your email already belongs to an Ousel account",
        opening=(
            (
                f"Somebody asked to use this email address for the Ousel account @{username}. "
                "It already belongs to another account, so it cannot be used for a second one."
            ),
            (
                "If it was you, sign in to the account that you have. To use the email for another "
                "account, first change the email of the one that has it."
            ),
        ),
        link=("Sign in", f"{portal_url}/login"),
        closing=("If it was not you, ignore this message. Nothing has changed.",),
    )


def changed_letter(username: str, portal_url: str) -> Letter:
    """Return the letter to the email that an account had before."""
    return Letter(
        subject="The email of your Ousel account was changed",
        opening=(
            (
                f"The Ousel account @{username} has a new email. Money that is sent to the old "
                "email no longer reaches the account, and the old email no longer signs you in."
            ),
        ),
        link=("Sign in with your username", f"{portal_url}/login"),
        closing=(
            (
                "If it was not you, somebody knows your password. Sign in with your username, "
                "change the password, then change the email back. If you cannot sign in, ask the "
                "operator of this server to freeze the account."
            ),
        ),
    )
