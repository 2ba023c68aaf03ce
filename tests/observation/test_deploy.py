"""The dashboard, the alerts and the document name metrics that a server has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.observation.observed_server import ObservedServer, Scraped
from tests.support.world import World

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "ousel.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
MONITORING = ROOT / "docs" / "operating" / "monitor.md"
MADE_BY_PROMETHEUS = {"up"}  # of every target, whatever it says itself
MINUTE_SECONDS = 60
INTERVALS = {"$__rate_interval": "5m"}


@pytest.fixture
async def busy(observed: ObservedServer, world: World) -> Scraped:
    """The metrics of a server on which a little of everything has happened."""
    payer = (await world.person("100")).account_number
    async with world.partner("100") as partner:
        charge = (await partner.client.post("/charges", json={"amount": 1})).json()["id"]
        paid = await partner.client.post(f"/sandbox/charges/{charge}/pay", json={"payer": payer})
        assert paid.status_code == 200
        assert (await partner.client.get("/charges/none")).status_code == 404
    return observed.scrape()


def dashboard_queries() -> list[str]:
    """Return every query of the dashboard."""
    return [
        target["expr"]
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel.get("targets", [])
    ]


def alert_rules() -> list[dict[str, Any]]:
    """Return every rule."""
    groups: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def unknown_metrics(query: str, scraped: Scraped) -> set[str]:
    """Return the metrics of a query that the server does not have."""
    for variable, interval in INTERVALS.items():
        query = query.replace(variable, interval)
    return _selected(query) - scraped.names - MADE_BY_PROMETHEUS


@pytest.mark.slow
async def test_every_query_of_the_dashboard_asks_for_what_is_there(busy: Scraped) -> None:
    """Each is valid PromQL, and each metric in it is in a real scrape."""
    queries = dashboard_queries()

    assert len(queries) > 20
    assert {query: unknown_metrics(query, busy) for query in queries} == {
        query: set() for query in queries
    }


async def test_every_alert_watches_what_is_there(busy: Scraped) -> None:
    """Each is valid PromQL on metrics of a real scrape, and says what it saw and how grave."""
    rules = alert_rules()

    assert len(rules) >= 10
    for rule in rules:
        assert unknown_metrics(rule["expr"], busy) == set(), rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]


async def test_a_wrong_name_would_be_found(busy: Scraped) -> None:
    """These tests can fail: a misspelt metric is named, wherever in a query it stands."""
    wrong = "sum(rate(ousel_http_request_total[5m])) / on() max(ousel_refusals_total) or absent(uq)"

    assert unknown_metrics(wrong, busy) == {"ousel_http_request_total", "uq"}


async def test_the_document_tells_every_metric_and_no_other(busy: Scraped) -> None:
    """Name, kind and labels of each are as the table says."""
    rows = re.findall(
        r"^\| `(ousel_\w+)` \| (\w+) \|([^|]*)\|", MONITORING.read_text(), re.MULTILINE
    )
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}

    found = {
        name + ("_total" if family.type == "counter" else ""): (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for name, family in busy.families.items()
        if name.startswith("ousel_")
    }
    assert documented == found


def test_the_document_says_what_to_do_about_every_alert() -> None:
    """Each alert stands in the table of what may be wrong, and no other does."""
    table = MONITORING.read_text().partition("## When something is wrong")[2]

    assert set(re.findall(r"`(Ousel\w+)`", table)) == {rule["alert"] for rule in alert_rules()}


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_the_document_says_when_an_alert_is_raised(rule: dict[str, Any]) -> None:
    """The rows of an alert name the bound of its rule, and for how long it must be exceeded."""
    pattern = rf"^\| .*`{rule['alert']}`.*$"
    rows = "\n".join(re.findall(pattern, MONITORING.read_text(), re.MULTILINE))

    assert [text for text in _conditions(rule) if text not in rows] == []


def _conditions(rule: dict[str, Any]) -> Iterator[str]:
    """Yield the conditions of a rule in the words of the document."""
    query = rule["expr"]
    bound = float(re.findall(r"[=>] ([\d.]+)", query)[0])
    if " / " in query:
        yield f"more than {bound * 100:g} %"
    elif bound >= MINUTE_SECONDS:
        yield f"more than {bound / MINUTE_SECONDS:g} minutes"
    elif bound:
        yield f"more than {bound:g} "
    if "for" in rule:
        yield f"for {rule['for'].removesuffix('m')} minute"


def _selected(query: str) -> set[str]:
    """Return the name of each metric that a query reads."""
    names: set[str] = set()

    def visit(expression: promql_parser.Expr) -> None:
        if isinstance(expression, promql_parser.MatrixSelector):
            expression = expression.vector_selector
        if isinstance(expression, promql_parser.VectorSelector):
            names.add(str(expression.name))

    promql_parser.walk(promql_parser.parse(query), visit)
    return names
