"""The metrics of a real server: each counts what it says, and nothing else."""

import asyncio

import httpx2

from tests.observation.observed_server import ObservedServer, Scraped
from tests.support.accounts import verify
from tests.support.world import World


def grown(before: Scraped, after: Scraped, name: str, **labels: str) -> float:
    """Return by how much a metric grew."""
    return after.value(name, **labels) - before.value(name, **labels)


async def test_requests_are_counted_by_route_method_and_status(
    observed: ObservedServer, world: World
) -> None:
    """The route is a template, whatever account or charge the address names."""
    async with world.partner("100") as partner:
        before = observed.scrape()
        for identifier in ("@nobody1", "@nobody2", "@somebody"):
            await partner.client.get(f"/accounts/{identifier}")
        await partner.client.post("/transfers", json={"to": "@nobody1", "amount": 1})
        after = observed.scrape()

    route = "/v1/accounts/{identifier}"
    requests = "ousel_http_requests_total"
    assert grown(before, after, requests, method="GET", route=route, status="404") == 2
    assert grown(before, after, requests, method="GET", route=route, status="200") == 1
    assert grown(before, after, requests, route="/v1/transfers", status="404") == 1
    assert grown(before, after, requests) == 4
    durations = "ousel_http_request_duration_seconds"
    assert grown(before, after, f"{durations}_count", route=route) == 3
    assert grown(before, after, f"{durations}_bucket", route=route, le="+Inf") == 3
    assert 0 < grown(before, after, f"{durations}_sum", route=route) < 30


async def test_unknown_paths_share_one_label(observed: ObservedServer) -> None:
    """Unknown addresses are counted in one series, not in one for each address."""
    before = observed.scrape()
    for number in range(3):
        httpx2.get(f"{observed.origin}/guess/{number}", verify=False)
    httpx2.delete(f"{observed.base_url}/me", verify=False)
    after = observed.scrape()

    assert grown(before, after, "ousel_http_requests_total", route="unmatched") == 4
    assert grown(before, after, "ousel_refusals_total", code="not_found") == 3
    assert grown(before, after, "ousel_refusals_total", code="method_not_allowed") == 1
    assert "guess" not in after.text


async def test_refusals_are_counted_by_their_code(observed: ObservedServer, world: World) -> None:
    """Refusals of the API, of OAuth, of pages and of the rate limit are counted."""
    async with world.partner("100") as partner:
        before = observed.scrape()
        await partner.client.post("/transfers", json={"to": "@somebody", "amount": 1000})
        await partner.client.post("/transfers", json={"to": "@somebody", "amount": 0})
        await partner.client.get("/me", headers={"Authorization": "Bearer nonsense"})
        await partner.client.post("/oauth/token", json={"grant_type": "password"})
        httpx2.post(f"{observed.origin}/login", data={"form_token": "stale"}, verify=False)
        for _ in range(45):
            await partner.client.get("/balance")
        after = observed.scrape()

    refusals = "ousel_refusals_total"
    assert grown(before, after, refusals, code="insufficient_balance") == 1
    assert grown(before, after, refusals, code="invalid_amount") == 1
    assert grown(before, after, refusals, code="unauthorized") == 1
    assert grown(before, after, refusals, code="invalid_client") == 1
    assert grown(before, after, refusals, code="form_not_trusted") == 1
    assert grown(before, after, refusals, code="rate_limited") == 7
    assert grown(before, after, refusals) == 12


async def test_batches_are_counted_with_their_size_and_time(
    observed: ObservedServer, world: World
) -> None:
    """Every posting is in one batch, in as many transactions as it took."""
    recipient = (await world.person("100")).account_number
    async with world.partner("100") as partner:
        before = observed.scrape()
        sent = await asyncio.gather(
            *(
                partner.client.post("/transfers", json={"to": recipient, "amount": 1})
                for _ in range(20)
            )
        )
        after = observed.scrape()

    assert {answer.status_code for answer in sent} == {201}
    batches = grown(before, after, "ousel_posting_batch_postings_count")
    assert grown(before, after, "ousel_posting_batch_postings_sum") == 20
    assert 1 <= batches <= 20
    assert grown(before, after, "ousel_posting_transaction_seconds_count") == batches
    assert 0 < grown(before, after, "ousel_posting_transaction_seconds_sum") < 30
    assert after.value("ousel_posting_queue_length") == 0
    assert after.value("ousel_posting_queue_limit") == 10_000


async def test_charges_are_counted_by_what_became_of_them(
    observed: ObservedServer, world: World
) -> None:
    """Created, canceled, paid, and expired when that is seen: each once, however often it is read.

    A replay creates nothing, and a cancellation that is refused cancels nothing.
    """
    payer = (await world.person("100")).account_number
    async with world.partner("100") as partner:
        before = observed.scrape()
        first, second, third, fourth = [
            (
                await partner.client.post(
                    "/charges", json={"amount": 2}, headers={"Idempotency-Key": key}
                )
            )
            for key in ("a", "b", "c", "a")
        ]
        assert fourth.json()["id"] == first.json()["id"]
        paid, canceled, forgotten = (each.json()["id"] for each in (first, second, third))
        await partner.client.post("/sandbox/clock", json={"advance": 400})
        await partner.client.post(f"/sandbox/charges/{paid}/pay", json={"payer": payer})
        await partner.client.post(f"/charges/{canceled}/cancel")
        await partner.client.post(f"/charges/{canceled}/cancel")
        await partner.client.post("/sandbox/clock", json={"advance": 7200})
        await partner.client.post(f"/charges/{forgotten}/cancel")
        for _ in range(2):
            assert (await partner.client.get(f"/charges/{forgotten}")).json()["status"] == "expired"
        after = observed.scrape()

    counted = {
        outcome: grown(before, after, "ousel_charges_total", outcome=outcome)
        for outcome in ("created", "paid", "canceled", "expired")
    }
    assert counted == {"created": 3, "paid": 1, "canceled": 1, "expired": 1}
    seconds = "ousel_charge_payment_seconds"
    assert grown(before, after, f"{seconds}_count") == 1
    assert grown(before, after, f"{seconds}_bucket", le="300.0") == 0
    assert grown(before, after, f"{seconds}_bucket", le="600.0") == 1
    assert 400 <= grown(before, after, f"{seconds}_sum") < 460


async def test_an_expiry_is_counted_by_whoever_sees_it(
    observed: ObservedServer, world: World
) -> None:
    """Each expiry is counted once, by the first read or list that finds it."""
    async with world.partner("100") as partner:
        before = observed.scrape()
        for _ in range(3):
            await partner.client.post("/charges", json={"amount": 1})
        last = (await partner.client.post("/charges", json={"amount": 1})).json()["id"]
        await partner.client.post("/sandbox/clock", json={"advance": 7200})
        await partner.client.get(f"/charges/{last}")
        read = observed.scrape()
        listed = (await partner.client.get("/charges", params={"status": "expired"})).json()["data"]
        after = observed.scrape()

    assert len(listed) == 4
    assert grown(before, read, "ousel_charges_total", outcome="expired") == 1
    assert grown(before, after, "ousel_charges_total", outcome="expired") == 4


async def test_ledger_metrics_agree_with_verify(observed: ObservedServer, world: World) -> None:
    """All balances add up to 0; entries, accounts and money are never more than there are."""
    async with world.partner("100"):
        scraped = observed.scrape()
    figures = await verify(world.database)

    assert scraped.value("ousel_ledger_balances_sum_millionths") == 0
    assert 0 < scraped.value("ousel_ledger_entries") <= figures.entries
    assert 1 < scraped.value("ousel_ledger_accounts") <= figures.accounts
    assert 0 < scraped.value("ousel_ledger_issued_ousd") <= figures.issued / 1_000_000


async def test_the_process_says_what_it_is(observed: ObservedServer) -> None:
    """Its version, engine and mode; its connections, memory and processor time."""
    scraped = observed.scrape()

    (about,) = (each.labels for each in scraped.samples if each.name == "ousel_build_info")
    assert about["engine"] == observed.engine
    assert about["mode"] == "test"
    assert set(about) == {"version", "schema", "engine", "mode"}
    assert scraped.value("ousel_database_connections") >= 1
    assert scraped.value("ousel_database_abandoned_commits") == 0
    assert scraped.value("ousel_database_writes_suspended") == 0
    assert scraped.value("process_resident_memory_bytes") > 1_000_000
    assert scraped.value("process_cpu_seconds_total") > 0
    assert "python_gc_collections_total" in scraped.names
