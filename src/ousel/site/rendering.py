"""Rendering of templates to HTML pages with a strict Content-Security-Policy."""

import re
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup, escape

from ousel.http.messages import Answer, RawHeader, retry_after_header
from ousel.kernel.clock import timestamp, utc_text
from ousel.kernel.errors import InvalidForm, Refusal
from ousel.kernel.money import money_text
from ousel.kernel.settings import Settings
from ousel.site.assets import Assets
from ousel.site.forms import new_seed
from ousel.site.visits import Visit

HTML: Final = b"text/html; charset=utf-8"

_CODE: Final = re.compile(r"`([^`]+)`")

_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
_PAGE_HEADERS: Final[tuple[RawHeader, ...]] = (
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class PageRenderer:
    """Renders the templates of these packages."""

    def __init__(self, settings: Settings, assets: Assets, packages: Iterable[str]) -> None:
        """Find the template `package/name.html` in the template folder of that package."""
        self.portal_url = settings.portal_url
        self._environment = _environment(("site", *packages))
        self._common_context: dict[str, Any] = {
            "asset": assets.url,
            "sandbox": settings.sandbox,
            "portal_url": settings.portal_url,
            "base_url": settings.base_url,
        }

    def render(
        self,
        template: str,
        visit: Visit,
        *,
        refusal: Refusal | None = None,
        status: int | None = None,
        headers: tuple[RawHeader, ...] = (),
        forms_lead_to: str = "",
        **context: Any,
    ) -> Answer:
        """Return a rendered page.

        After a refusal, it has the status of the refusal and says what is wrong with each field.
        Its forms may also redirect to the sources in `forms_lead_to`, such as `https:`.
        """
        if status is None:
            status = HTTPStatus.OK if refusal is None else refusal.status
        outcome = {"refusal": refusal, "errors": _field_errors(refusal)}
        variables = self._common_context | outcome | context
        html = self._environment.get_template(template).render(visit=visit, **variables)
        policy = f"{_CONTENT_SECURITY_POLICY} {forms_lead_to}".rstrip().encode()
        return Answer(
            status,
            html.encode(),
            HTML,
            (*_PAGE_HEADERS, (b"content-security-policy", policy), *headers),
        )

    def render_problem(self, refusal: Refusal, visit: Visit, *, again: str | None = None) -> Answer:
        """Return the page for a refusal; `again` is the page on which to start over."""
        return self.render(
            "site/problem.html",
            visit,
            refusal=refusal,
            headers=retry_after_header(refusal),
            again=again,
        )


@cache
def _environment(packages: tuple[str, ...]) -> Environment:
    """Return the templates of these packages, compiled once per process."""
    environment = Environment(
        loader=PrefixLoader({name: PackageLoader(f"ousel.{name}") for name in packages}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"money": money_text, "moment": time_element, "prose": inline_code}
    environment.globals["new_seed"] = new_seed
    return environment


def _field_errors(refusal: Refusal | None) -> dict[str, str]:
    """Return what is wrong with each field, by name."""
    if isinstance(refusal, InvalidForm):
        return refusal.errors
    if refusal is None or refusal.param is None:
        return {}
    return {refusal.param: refusal.detail}


def inline_code(text: str) -> Markup:
    """Return the text as HTML, with `words in backticks` as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def time_element(micros: int) -> Markup:
    """Return a time element in UTC; a script converts it to the viewer's time zone."""
    utc = timestamp(micros)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        utc, utc[:19].replace("T", " "), utc_text(micros)
    )
