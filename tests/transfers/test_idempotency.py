"""Idempotency: one key, one intent, one movement."""

import pytest

from tests.support.accounts import unique_name, verify
from tests.support.problems import assert_problem
from tests.support.world import PartnerClient, World

EVERY_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
KEYS = ("k", "k" * 255, EVERY_VISIBLE, '"quoted"', "{}", "null", "0")
NOT_KEYS = ("k" * 256, "a b", " ", "a\tb", "é", "\x7f", "a\nb", "💶")


async def test_a_key_in_the_header_or_in_the_body_is_the_same_key(world: World) -> None:
    """The header and the body field are one key: either may come first, or both at once."""
    ada = await world.person()

    async with world.partner("100") as sender:
        plain = f'{{"to":"@{ada.username}","amount":1}}'
        keyed = f'{{"to":"@{ada.username}","amount":1,"idempotency_key":"order-1"}}'
        first = await sender.send(plain, "order-1")
        replays = [
            await sender.send(keyed),
            await sender.send(keyed, "order-1"),
            await sender.send(plain, "order-1"),
        ]

    assert first.status_code == 201, first.text
    assert first.json()["idempotency_key"] == "order-1"
    assert "Idempotent-Replayed" not in first.headers
    for replay in replays:
        assert replay.status_code == 200, replay.text
        assert replay.headers["Idempotent-Replayed"] == "true"
        assert replay.text == first.text
    assert await world.balance(ada) == 1_000_000


async def test_two_keys_that_differ_are_refused(world: World) -> None:
    """A header and a body field that differ, or two headers, leave no doubt: 400."""
    ada = await world.person()
    body = f'{{"to":"@{ada.username}","amount":1,"idempotency_key":"body"}}'
    twice = [
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "one"),
        ("Idempotency-Key", "two"),
    ]

    async with world.partner("100") as sender:
        differing = await sender.send(body, "header")
        doubled = await sender.client.post(
            "/transfers", content=f'{{"to":"@{ada.username}","amount":1}}', headers=twice
        )

    assert_problem(differing, 400, "invalid_field", "idempotency_key")
    assert_problem(doubled, 400, "invalid_field", "idempotency_key")
    assert await world.balance(ada) == 0


async def test_a_key_is_1_to_255_visible_ascii_characters(
    world: World, subtests: pytest.Subtests
) -> None:
    """Each visible ASCII character may stand in a key, in the header and in the body alike."""
    ada = await world.person()

    async with world.partner("100") as sender:
        for key in KEYS:
            with subtests.test(key=key[:20]):
                body = {"to": f"@{ada.username}", "amount": 1, "idempotency_key": key}
                first = await sender.client.post("/transfers", json=body)
                replay = await sender.send(f'{{"to":"@{ada.username}","amount":1}}', key)

                assert first.status_code == 201, first.text
                assert first.json()["idempotency_key"] == key
                assert replay.status_code == 200, replay.text

    assert await world.balance(ada) == len(KEYS) * 1_000_000


async def test_what_is_no_key_is_refused(world: World, subtests: pytest.Subtests) -> None:
    """An empty key, a long one, one with a space or a letter beyond ASCII: 400, nothing moves."""
    ada = await world.person()
    plain = {"to": f"@{ada.username}", "amount": 1}

    async with world.partner("100") as sender:
        for key in ("", *NOT_KEYS):
            with subtests.test(body=key[:20]):
                answer = await sender.client.post(
                    "/transfers", json={**plain, "idempotency_key": key}
                )

                assert_problem(answer, 400, "invalid_field", "idempotency_key")
        for header in (b"", b"k" * 256, b"a b", b"\xe9", b"a\tb"):
            with subtests.test(header=header[:20]):
                answer = await sender.client.post(
                    "/transfers", json=plain, headers={b"Idempotency-Key": header}
                )

                assert_problem(answer, 400, "invalid_field", "idempotency_key")
        values: tuple[object, ...] = (5, True, ["k"], {})
        for value in values:
            with subtests.test(body=value):
                answer = await sender.client.post(
                    "/transfers", json={**plain, "idempotency_key": value}
                )

                assert_problem(answer, 400, "invalid_field", "idempotency_key")

    assert await world.balance(ada) == 0


async def test_without_a_key_each_post_moves_money(world: World) -> None:
    """A null key is no key: the same request twice is two transfers."""
    ada = await world.person()

    async with world.partner("100") as sender:
        body = f'{{"to":"@{ada.username}","amount":1,"idempotency_key":null,"note":null}}'
        first, second = await sender.send(body), await sender.send(body)

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["idempotency_key"] is None
    assert first.json()["id"] != second.json()["id"]
    assert await world.balance(ada) == 2_000_000


async def test_a_request_is_compared_by_value(world: World, subtests: pytest.Subtests) -> None:
    """1.0 is 1.00 is 1e0, and a recipient is the same by each of its names, in either case."""
    ada = await world.person()
    amounts = ("1", "1.0", "1.00", "1e0", "10e-1", "0.1e1", "1.000000")
    names = (
        f"@{ada.username}",
        f"@{ada.username.upper()}",
        f"{ada.username}@example.com",
        f"{ada.username.upper()}@EXAMPLE.COM",
        ada.account_number,
        ada.account_number.lower(),
    )

    async with world.partner("100") as sender:
        first = await sender.send(f'{{"to":"@{ada.username}","amount":1,"note":"é"}}', "same")
        for name in names:
            for amount in amounts:
                with subtests.test(to=name, amount=amount):
                    answer = await sender.send(
                        f'{{"note":"\\u00e9", "amount":{amount}, "to":"{name}"}}', "same"
                    )

                    assert answer.status_code == 200, answer.text
                    assert answer.json()["id"] == first.json()["id"]

    assert first.status_code == 201
    assert await world.balance(ada) == 1_000_000


async def test_another_request_under_the_same_key_is_a_conflict(
    world: World, subtests: pytest.Subtests
) -> None:
    """Another recipient, amount or note: 409 that names the first transfer; nothing moves."""
    ada, grace = await world.person(), await world.person()
    others = (
        f'{{"to":"@{grace.username}","amount":1,"note":"rent"}}',
        f'{{"to":"@{ada.username}","amount":1.000001,"note":"rent"}}',
        f'{{"to":"@{ada.username}","amount":1,"note":"Rent"}}',
        f'{{"to":"@{ada.username}","amount":1,"note":"rent "}}',
        f'{{"to":"@{ada.username}","amount":1,"note":""}}',
        f'{{"to":"@{ada.username}","amount":1}}',
        f'{{"to":"@{ada.username}","amount":99999,"note":"rent"}}',
    )

    async with world.partner("100") as sender:
        first = await sender.send(f'{{"to":"@{ada.username}","amount":1,"note":"rent"}}', "month")
        transfer_id = first.json()["id"]
        for body in others:
            with subtests.test(body=body):
                answer = await sender.send(body, "month")

                problem = assert_problem(
                    answer, 409, "idempotency_conflict", "idempotency_key", transfer_id=transfer_id
                )
                assert transfer_id in problem["detail"]

    assert await world.balance(ada) == 1_000_000
    assert await world.balance(grace) == 0


async def test_only_a_transfer_that_happened_binds_its_key(world: World) -> None:
    """After a refusal the same key may be used again, for the same request or for another."""
    ada, grace = await world.person(), await world.person()

    async with world.partner("10") as sender:
        refused = await sender.send(f'{{"to":"@{ada.username}","amount":11}}', "again")
        not_found = await sender.send(f'{{"to":"@{unique_name()}","amount":1}}', "again")
        malformed = await sender.send('{"to":"@ada","amount":"1"}', "again")
        sent = await sender.send(f'{{"to":"@{grace.username}","amount":2}}', "again")
        replay = await sender.send(f'{{"to":"@{grace.username}","amount":2}}', "again")

    assert_problem(refused, 400, "insufficient_balance", "amount")
    assert_problem(not_found, 404, "account_not_found", "to")
    assert_problem(malformed, 400, "invalid_amount", "amount")
    assert sent.status_code == 201, sent.text
    assert replay.status_code == 200
    assert await world.balance(ada) == 0
    assert await world.balance(grace) == 2_000_000


async def test_a_replay_needs_no_balance_and_survives_a_freeze(world: World) -> None:
    """The first answer comes again even when the transfer could not happen now."""
    ada = await world.person()

    async with world.partner("1") as sender:
        body = f'{{"to":"@{ada.username}","amount":1}}'
        first = await sender.send(body, "all")
        await world.set_status(sender.account, "frozen")
        replay = await sender.send(body, "all")

    assert first.status_code == 201
    assert replay.status_code == 200
    assert replay.json()["balance_after"] == 0
    assert replay.json()["id"] == first.json()["id"]


async def test_a_key_belongs_to_its_owner(world: World) -> None:
    """Two owners may use the same key for different transfers; two apps of one owner share it."""
    ada = await world.person()
    body = f'{{"to":"@{ada.username}","amount":1}}'

    async with world.partner("10") as one, world.partner("10") as other:
        first = await one.send(body, "shared")
        second = await other.send(body, "shared")
        async with world.another_app(one) as sibling:
            replay = await sibling.send(body, "shared")

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] != second.json()["id"]
    assert replay.status_code == 200
    assert replay.json()["id"] == first.json()["id"]
    assert await world.balance(ada) == 2_000_000
    await verify(world.database)


async def test_a_key_is_matched_with_its_case(world: World) -> None:
    """K and k are two keys."""
    ada = await world.person()

    async with world.partner("10") as sender:
        answers = [await _send_one(sender, ada.username, key) for key in ("K", "k", "K")]

    assert [answer for answer, _ in answers] == [201, 201, 200]
    assert answers[0][1] == answers[2][1] != answers[1][1]


async def _send_one(sender: PartnerClient, username: str, key: str) -> tuple[int, str]:
    answer = await sender.send(f'{{"to":"@{username}","amount":1}}', key)
    return answer.status_code, answer.json()["id"]
