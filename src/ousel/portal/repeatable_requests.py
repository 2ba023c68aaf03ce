"""Forms that create an app or issue a key, and are recognized when they are sent twice.

Such a form carries a seed. The new key, and the last characters of the new app's id, are derived
from this seed and from the session's secret, so a form that is sent twice yields the same ones. The
session's secret is part of it so that the form alone reveals no key.
"""

from ousel.partners.rules import RepeatableRequest
from ousel.site.cookies import Cookies
from ousel.site.forms import seed_of
from ousel.site.visits import Visit


def repeatable_request(visit: Visit, cookies: Cookies, name: str = "") -> RepeatableRequest:
    """Return what was asked for, which is equal if this session sends the same form again."""
    secret = f"{cookies.session(visit.headers)} {seed_of(visit)}"
    return RepeatableRequest(secret, f"{visit.url} {name}")
