"""Bodies: JSON objects in UTF-8 of at most 64 KiB; anything else is a clear 4xx, never a 500."""

import gzip

import pytest

from tests.support.problems import assert_problem
from tests.support.raw_http import chunked, cut_off, exchange, request
from tests.support.waiting import until
from tests.support.world import PartnerClient, World

pytestmark = pytest.mark.one_engine

LIMIT = 64 * 1024
NOT_JSON = (
    *(b"", b" ", b"{", b"}", b"nonsense", b'{"to"}', b'{"to":}', b'{"to":"@a","amount":1,}'),
    *(b"{'to':'@a'}", b"{to:1}", b'{"to":"@a","amount":1}{}', b'{"to":"@a","amount":1}\x00'),
    *(b'\xef\xbb\xbf{"to":"@a","amount":1}', '{"to":"@a","amount":1}'.encode("utf-16")),
    *(b'{"to":"\xff","amount":1}', b'{"\xff":1}', b'{"to":"@a","amount":1,"note":"\xed\xa0\x80"}'),
    *(b'{"to":"@a","amount":1,"note":"\\ud800"}', b'{"\\udc00":1}', b'{"to":"\\ud800x"}'),
    *(b'{"to":"@a","amount":1,"note":"\x00"}', b'{"to":"@a","amount":1,"note":"a\nb"}'),
    *(b'{"to":"@a","amount":1,"note":NaN}', b'{"note":[NaN],"amount":1}', b"NaN"),
    *(b'{"to":"@a","amount":1,"note":"\\x41"}', b"// c\n{}", b'{"to":"@a","amount":1'),
    *(b"[]", b"[{}]", b'"text"', b"5", b"null", b"true", b'["to","amount"]'),
)
NESTED = (
    b"[" * 60_000,
    b'{"to":' * 10_000,
    b'{"to":"@a","amount":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    b'{"to":"@a","amount":1,"note":' + b'{"a":' * 9_000 + b"1" + b"}" * 9_000 + b"}",
    b'{"to":"@a","amount":1,"other":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
)
NO_OBJECTS = (
    *(
        b" ",
        b"\x00",
        b"{",
        b"{}{}",
        b"nonsense",
        b'{"a"}',
        b"[]",
        b'"text"',
        b"null",
        b"5",
        b"\xff",
    ),
    *(b'{"\xff":1}', b'{"\\ud800":1}', b"{}\x00", b"\xef\xbb\xbf{}", NESTED[0], NESTED[1]),
)
CONTENT_TYPES = (
    "application/json",
    "application/json; charset=utf-8",
    "APPLICATION/JSON;charset=UTF-8",
    'application/json; charset="utf-8"',
)
OTHER_CONTENT_TYPES = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
    *("application/json; charset=latin-1", "application/jsonx", "application", "json", "*/*"),
    *("application/json, text/plain", "application/problem+json", "text/json"),
)


async def test_what_is_no_json_object_is_refused(world: World, subtests: pytest.Subtests) -> None:
    """Bad JSON, another encoding, lone surrogates, a list, a literal: 400 `malformed_json`."""
    async with world.partner("10") as sender:
        for body in NOT_JSON:
            with subtests.test(body=body[:60]):
                assert_problem(await sender.send(body), 400, "malformed_json")


async def test_a_compressed_body_is_refused_as_such(world: World) -> None:
    """A compressed body is refused as such, not as wrong JSON."""
    body = b'{"to":"@ada","amount":1}'

    async with world.partner("10") as sender:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        for content in (gzip.compress(body), body):
            answer = await sender.client.post("/transfers", content=content, headers=headers)
            assert_problem(answer, 415, "unsupported_media_type")
            assert "Content-Encoding" in answer.json()["detail"]


async def test_deep_nesting_is_refused(world: World, subtests: pytest.Subtests) -> None:
    """However deep a body is nested, and wherever: 400, and the server goes on."""
    async with world.partner("10") as sender:
        for body in NESTED:
            with subtests.test(body=body[:40]):
                assert_problem(await sender.send(body), 400, "malformed_json")


async def test_a_hundred_levels_are_read_and_one_more_is_refused(world: World) -> None:
    """The limit is the interface's own, the same on every Python."""
    async with world.partner("10") as sender:
        lists, more = (b"[" * depth + b"]" * depth for depth in (99, 100))
        read = await sender.send(b'{"to":"@a","amount":1,"other":%b}' % lists)
        over = await sender.send(b'{"to":"@a","amount":1,"other":%b}' % more)
        objects = await sender.send(b'{"a":' * 101 + b"1" + b"}" * 101)

    assert_problem(read, 400, "unknown_field", "other")
    assert_problem(over, 400, "malformed_json")
    assert_problem(objects, 400, "malformed_json")
    assert "at most 100 levels deep" in over.json()["detail"]


async def test_brackets_that_nest_nothing_are_let_through(world: World) -> None:
    """Brackets inside strings and consecutive lists do not count as depth."""
    ada = await world.person()
    text = '[{\\"[{' * 60

    async with world.partner("10") as sender:
        sent = await sender.send(f'{{"to":"@{ada.username}","amount":1,"note":"{text}"}}')
        beside = await sender.send('{"to":"@a","amount":1,"other":[' + "[{}]," * 200 + "1]}")

    assert sent.status_code == 201, sent.text
    assert sent.json()["note"] == text.replace("\\", "")
    assert_problem(beside, 400, "unknown_field", "other")


async def test_a_field_that_stands_twice_never_fails_the_server(world: World) -> None:
    """Where one of two values of the same name is wrong, the body is refused as a whole."""
    ada = await world.person()

    async with world.partner("10") as sender:
        answer = await sender.send(f'{{"to":5,"to":"@{ada.username}","amount":1}}')

    assert_problem(answer, 400, "malformed_json", "to")
    assert await world.balance(ada) == 0


async def test_the_last_of_two_valid_values_counts(world: World) -> None:
    """This is what the documentation says of JSON; query parameters may not be repeated."""
    ada, bob = await world.person(), await world.person()

    async with world.partner("10") as sender:
        body = f'{{"to":"@{ada.username}","amount":3,"to":"@{bob.username}","amount":2}}'
        assert (await sender.send(body)).status_code == 201

    assert (await world.balance(ada), await world.balance(bob)) == (0, 2_000_000)


async def test_a_body_is_sent_as_application_json(world: World, subtests: pytest.Subtests) -> None:
    """Another content type, or none: 415, whatever the body holds."""
    ada = await world.person()
    body = f'{{"to":"@{ada.username}","amount":0.01}}'.encode()

    async with world.partner("10") as sender:
        for content_type in CONTENT_TYPES:
            with subtests.test(content_type=content_type):
                headers = {"Content-Type": content_type}
                answer = await sender.client.post("/transfers", content=body, headers=headers)

                assert answer.status_code == 201, answer.text
        for content_type in OTHER_CONTENT_TYPES:
            with subtests.test(content_type=content_type):
                headers = {"Content-Type": content_type}
                answer = await sender.client.post("/transfers", content=body, headers=headers)

                assert_problem(answer, 415, "unsupported_media_type")
        without = await sender.client.post("/transfers", content=body)

    assert_problem(without, 415, "unsupported_media_type")
    assert await world.balance(ada) == len(CONTENT_TYPES) * 10_000


async def test_a_body_has_at_most_64_kib_as_announced(world: World) -> None:
    """65,536 bytes are read; one more is refused before it is read."""
    ada = await world.person()

    async with world.partner("10") as sender:
        body = f'{{"to":"@{ada.username}","amount":1}}'.ljust(LIMIT)
        whole = await sender.send(body)
        over = await sender.send(body + " ")
        announced = await exchange(
            world.server.port,
            request("POST", "/v1/transfers", [*_headers(sender), ("Content-Length", "9" * 15)]),
        )

    assert whole.status_code == 201, whole.text
    assert_problem(over, 413, "body_too_large")
    assert_problem(announced, 413, "body_too_large")
    assert await world.balance(ada) == 1_000_000


async def test_a_body_in_chunks_has_the_same_limit(world: World, subtests: pytest.Subtests) -> None:
    """In one large chunk, in many, or without an end: the limit is that of the whole body."""
    ada = await world.person()
    small = f'{{"to":"@{ada.username}","amount":1}}'.encode()
    over = small.ljust(LIMIT + 1)
    wholes = (chunked(small.ljust(LIMIT)), chunked(small[:9], small[9:]))
    overs = (
        chunked(over),
        chunked(small.ljust(100_000)),
        chunked(over[:LIMIT], over[LIMIT:]),
        chunked(small, *([b" " * 1000] * 200)),
        chunked(small, *([b" " * 1000] * 3000))[:-5],
    )

    async with world.partner("10") as sender:
        head = request(
            "POST", "/v1/transfers", [*_headers(sender), ("Transfer-Encoding", "chunked")]
        )
        for body in wholes:
            with subtests.test(length=len(body)):
                answer = await exchange(world.server.port, head, body)
                assert answer.status_code == 201, answer.text
        for body in overs:
            with subtests.test(length=len(body)):
                answer = await exchange(world.server.port, head, body)
                assert_problem(answer, 413, "body_too_large")
            with subtests.test(length=len(body), at_once=True):
                answer = await exchange(world.server.port, head + body)
                assert_problem(answer, 413, "body_too_large")

    assert await world.balance(ada) == len(wholes) * 1_000_000


async def test_a_body_that_was_cut_off_moves_nothing(world: World) -> None:
    """What arrived may be a whole JSON object: the request was not whole, so it never happened."""
    ada = await world.person()
    body = f'{{"to":"@{ada.username}","amount":1}}'.encode()

    async with world.partner("10") as sender:
        longer = [*_headers(sender), ("Content-Length", str(len(body) + 10))]
        endless = [*_headers(sender), ("Transfer-Encoding", "chunked")]
        for wait in (0.0, 0.01, 0.1):
            announced = request("POST", "/v1/transfers", longer, body)
            in_chunks = request("POST", "/v1/transfers", endless, chunked(body)[:-5])
            await cut_off(world.server.port, announced, wait)
            await cut_off(world.server.port, in_chunks, wait)
        await until(lambda: not world.server.bytes_unread())
        alive = await sender.client.get("/balance")

    assert alive.json()["available"] == 10
    assert await world.balance(ada) == 0


async def test_chunks_that_cannot_be_read_move_nothing(
    world: World, subtests: pytest.Subtests
) -> None:
    """What stands before the noise may be a whole JSON object: 400, at once, and nothing moves."""
    ada = await world.person()
    body = f'{{"to":"@{ada.username}","amount":1}}'.encode()
    noise = (b"zz\r\n", chunked(body)[:-5] + b"zz\r\n", b"5\r\n" + body)

    async with world.partner("10") as sender:
        headers = [*_headers(sender), ("Transfer-Encoding", "chunked")]
        head = request("POST", "/v1/transfers", headers)
        for octets in noise:
            with subtests.test(octets=octets[:10]):
                slow = await exchange(world.server.port, head, octets, pause_seconds=0.05)
                quick = await exchange(world.server.port, head + octets)

                assert_problem(slow, 400, "malformed_request")
                assert_problem(quick, 400, "malformed_request")

    assert await world.balance(ada) == 0


async def test_a_body_in_slow_pieces_is_read_to_its_end(world: World) -> None:
    """A body that arrives piece by piece is the body."""
    ada = await world.person()
    body = f'{{"to":"@{ada.username}","amount":1}}'.encode()

    async with world.partner("10") as sender:
        head = request(
            "POST", "/v1/transfers", [*_headers(sender), ("Content-Length", str(len(body)))]
        )
        pieces = [body[start : start + 10] for start in range(0, len(body), 10)]
        answer = await exchange(world.server.port, head, *pieces, pause_seconds=0.02)

    assert answer.status_code == 201, answer.text
    assert await world.balance(ada) == 1_000_000


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (None, None),
        (b"", "text/plain"),
        (b"", "application/x-www-form-urlencoded"),
        (b"{}", "application/json"),
        (b" { } ", "application/json; charset=utf-8"),
    ],
)
async def test_an_endpoint_without_a_body_takes_none_or_one_without_fields(
    world: World, body: bytes | None, content_type: str | None
) -> None:
    """Some clients send an empty object where nothing is asked for."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    async with world.partner() as caller:
        created = await caller.client.post("/charges", json={"amount": 1})
        path = f"/charges/{created.json()['id']}/cancel"
        answer = await caller.client.post(path, content=body, headers=headers)

    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "canceled"


async def test_an_endpoint_without_a_body_refuses_any_other(
    world: World, subtests: pytest.Subtests
) -> None:
    """An optional body is validated like any other: an unknown field is refused."""
    json = "application/json"
    refused: list[tuple[bytes, str | None, int, str, str | None]] = [
        (b'{"reason":"late"}', json, 400, "unknown_field", "reason"),
        *((body, json, 400, "malformed_json", None) for body in NO_OBJECTS),
        *((b"{}", other, 415, "unsupported_media_type", None) for other in OTHER_CONTENT_TYPES),
        (b"{}", None, 415, "unsupported_media_type", None),
        (b"{}".ljust(LIMIT + 1), json, 413, "body_too_large", None),
    ]
    async with world.partner() as caller:
        created = await caller.client.post("/charges", json={"amount": 1})
        path = f"/charges/{created.json()['id']}"
        for body, content_type, status, code, param in refused:
            with subtests.test(body=body[:40], content_type=content_type):
                headers = {} if content_type is None else {"Content-Type": content_type}
                answer = await caller.client.post(f"{path}/cancel", content=body, headers=headers)

                assert_problem(answer, status, code, param)
        charge = (await caller.client.get(path)).json()

    assert charge["status"] == "created"


async def test_a_get_with_a_body_is_answered_as_without(world: World) -> None:
    """A body is ignored where none is expected."""
    async with world.partner("10") as sender:
        answer = await sender.client.request("GET", "/balance", content=b"\xff{")
        after = await sender.client.get("/balance")

    assert answer.status_code == 200, answer.text
    assert after.text == answer.text


def _headers(sender: PartnerClient) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {sender.key}"), ("Content-Type", "application/json")]
