"""The footer of every page."""

import re

import pytest

from tests.support.portal import Portal

FOOTER = re.compile(r"<footer.*</footer>", re.DOTALL)

pytestmark = pytest.mark.one_engine


async def test_every_link_of_the_footer_leads_to_a_page(sandbox: Portal) -> None:
    """Visitors find help, the documentation and the check of receipts without signing in."""
    visitor = sandbox.visitor()
    [footer] = FOOTER.findall((await visitor.get("/login")).text)
    links = re.findall(r'href="([^"]+)"', footer)

    answers = [await visitor.get(link) for link in links]

    assert [answer.status_code for answer in answers] == [200] * len(links)
    assert "<h1>Paying with Ousel</h1>" in answers[links.index("/docs/paying")].text
