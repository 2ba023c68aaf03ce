"""The metrics of a real server: each counts what it says, and nothing else."""

import asyncio

import httpx2

from tests.observation.posts import Post, Scraped
from tests.support.accounts import open_database, verify


def grown(before: Scraped, after: Scraped, name: str, **labels: str) -> float:
    """Return by how much a metric grew."""
    return after.value(name, **labels) - before.value(name, **labels)


async def test_requests_are_counted_by_route_method_and_status(post: Post) -> None:
    """The route is a template, whatever account or charge the address names."""
    async with post.partner() as client:
        before = post.scrape()
        for identifier in ("@nobody1", "@nobody2", "@furnished"):
            await client.get(f"/accounts/{identifier}")
        await client.post("/transfers", json={"to": "@nobody1", "amount": 1})
        after = post.scrape()

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


async def test_addresses_that_are_none_share_one_name(post: Post) -> None:
    """A stranger who tries addresses makes one series grow, not thousands begin."""
    before = post.scrape()
    for number in range(3):
        httpx2.get(f"{post.server.origin}/guess/{number}", verify=False)
    httpx2.delete(f"{post.server.base_url}/me", verify=False)
    after = post.scrape()

    assert grown(before, after, "ousel_http_requests_total", route="unmatched") == 4
    assert grown(before, after, "ousel_refusals_total", code="not_found") == 3
    assert grown(before, after, "ousel_refusals_total", code="method_not_allowed") == 1
    assert "guess" not in after.text


async def test_refusals_are_counted_by_their_code(post: Post) -> None:
    """Of the interface, of OAuth and of pages; and a caller over the limit among them."""
    async with post.partner() as client:
        before = post.scrape()
        await client.post("/transfers", json={"to": "@furnished", "amount": 1000})
        await client.post("/transfers", json={"to": "@furnished", "amount": 0})
        await client.get("/me", headers={"Authorization": "Bearer nonsense"})
        await client.post("/oauth/token", json={"grant_type": "password"})
        httpx2.post(f"{post.server.origin}/login", data={"form_token": "stale"}, verify=False)
        for _ in range(45):
            await client.get("/balance")
        after = post.scrape()

    refusals = "ousel_refusals_total"
    assert grown(before, after, refusals, code="insufficient_balance") == 1
    assert grown(before, after, refusals, code="invalid_amount") == 1
    assert grown(before, after, refusals, code="unauthorized") == 1
    assert grown(before, after, refusals, code="invalid_client") == 1
    assert grown(before, after, refusals, code="form_not_trusted") == 1
    assert grown(before, after, refusals, code="rate_limited") == 7
    assert grown(before, after, refusals) == 12


async def test_batches_are_counted_with_their_size_and_time(post: Post) -> None:
    """Every posting is in one batch, in as many transactions as it took."""
    recipient = await post.person()
    async with post.partner() as client:
        before = post.scrape()
        sent = await asyncio.gather(
            *(client.post("/transfers", json={"to": recipient, "amount": 1}) for _ in range(20))
        )
        after = post.scrape()

    assert {answer.status_code for answer in sent} == {201}
    batches = grown(before, after, "ousel_posting_batch_postings_count")
    assert grown(before, after, "ousel_posting_batch_postings_sum") == 20
    assert 1 <= batches <= 20
    assert grown(before, after, "ousel_posting_transaction_seconds_count") == batches
    assert 0 < grown(before, after, "ousel_posting_transaction_seconds_sum") < 30
    assert after.value("ousel_posting_queue_length") == 0
    assert after.value("ousel_posting_queue_limit") == 10_000


async def test_charges_are_counted_by_what_became_of_them(post: Post) -> None:
    """Created, canceled, paid, and expired when that is seen: each once, however often it is read.

    A replay creates nothing, and a cancellation that is refused cancels nothing.
    """
    payer = await post.person()
    async with post.partner() as client:
        before = post.scrape()
        first, second, third, fourth = [
            (await client.post("/charges", json={"amount": 2}, headers={"Idempotency-Key": key}))
            for key in ("a", "b", "c", "a")
        ]
        assert fourth.json()["id"] == first.json()["id"]
        paid, canceled, forgotten = (each.json()["id"] for each in (first, second, third))
        await client.post("/sandbox/clock", json={"advance": 400})
        await client.post(f"/sandbox/charges/{paid}/pay", json={"payer": payer})
        await client.post(f"/charges/{canceled}/cancel")
        await client.post(f"/charges/{canceled}/cancel")
        await client.post("/sandbox/clock", json={"advance": 7200})
        await client.post(f"/charges/{forgotten}/cancel")
        for _ in range(2):
            assert (await client.get(f"/charges/{forgotten}")).json()["status"] == "expired"
        after = post.scrape()

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


async def test_an_expiry_is_counted_by_whoever_sees_it(post: Post) -> None:
    """A read, a list: the first that sees it, once."""
    async with post.partner() as client:
        before = post.scrape()
        for _ in range(3):
            await client.post("/charges", json={"amount": 1})
        last = (await client.post("/charges", json={"amount": 1})).json()["id"]
        await client.post("/sandbox/clock", json={"advance": 7200})
        await client.get(f"/charges/{last}")
        read = post.scrape()
        listed = (await client.get("/charges", params={"status": "expired"})).json()["data"]
        after = post.scrape()

    assert len(listed) == 4
    assert grown(before, read, "ousel_charges_total", outcome="expired") == 1
    assert grown(before, after, "ousel_charges_total", outcome="expired") == 4


async def test_the_ledger_is_told_as_verify_finds_it(post: Post) -> None:
    """All balances add up to 0; entries, accounts and money are never more than there are."""
    async with post.partner():
        scraped = post.scrape()
    async with open_database(post.database_url) as database:
        figures = await verify(database)

    assert scraped.value("ousel_ledger_balances_sum_millionths") == 0
    assert 0 < scraped.value("ousel_ledger_entries") <= figures.entries
    assert 1 < scraped.value("ousel_ledger_accounts") <= figures.accounts
    assert 0 < scraped.value("ousel_ledger_issued_ousd") <= figures.issued / 1_000_000


async def test_the_process_says_what_it_is(post: Post) -> None:
    """Its version, engine and mode; its connections, memory and processor time."""
    scraped = post.scrape()

    (about,) = (each.labels for each in scraped.samples if each.name == "ousel_build_info")
    engine = "postgresql" if post.database_url.startswith("postgresql") else "sqlite"
    assert about["engine"] == engine
    assert about["mode"] == "test"
    assert set(about) == {"version", "schema", "engine", "mode"}
    assert scraped.value("ousel_database_connections") >= 1
    assert scraped.value("process_resident_memory_bytes") > 1_000_000
    assert scraped.value("process_cpu_seconds_total") > 0
    assert "python_gc_collections_total" in scraped.names
