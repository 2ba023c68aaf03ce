"""The page that checks receipts: for anyone, with a file or a text, with or without scripts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.http.messages import Request
from ousel.sealed_log.keys import LogKey, new_key, write_key
from ousel.sealed_log.proof_text import encode_proof_text
from ousel.site.forms import read_form
from tests.sealed_log.examples import ADA, BOB, KEY, ORIGIN, log_with, movement, receipt_of
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor

VKEY = str(KEY.verifier)
RECEIPT = receipt_of(movement(note="<b>Lunch</b>"))


async def check(visitor: Visitor, **fields: str) -> tuple[int, str]:
    """Press the button, and return the status and the page."""
    answer = await visitor.press("/verify", "Check receipt", **fields)
    return answer.status_code, answer.text


async def upload(visitor: Visitor, content: bytes, key: str = VKEY) -> tuple[int, str]:
    """Send the form as a browser does that has chosen a file."""
    form = await visitor.form("/verify", "Check receipt")
    fields = form.pressed("Check receipt", {"key": key, "receipt": ""})
    fields.pop("file", None)
    answer = await visitor.client.post(
        "/verify", data=fields, files={"file": ("receipt.json", content, "application/json")}
    )
    return answer.status_code, answer.text


async def test_anyone_reads_in_words_what_a_receipt_proves(portal: Portal) -> None:
    """What is proven, what is not, and the fingerprint; nothing in the receipt becomes markup."""
    status, page = await check(portal.visitor(), receipt=RECEIPT.decode(), key=VKEY)

    assert status == 200
    assert "The receipt is genuine" in page
    assert "<dt>Amount</dt><dd>25.00 OUSD</dd>" in page
    assert "has this movement as leaf 5" in page
    assert "the balance after it was 75.00 OUSD" in page
    word = page.partition("Stated by the operator, not proven by the log")[2].partition(
        "</section>"
    )[0]
    assert f"Account acct_a is @ada, account number {ADA['account_number']}, “Ada”." in word
    assert f"Account acct_b is @bob, account number {BOB['account_number']}, “Bôb”." in word
    assert "no witness whose key was given has cosigned it" in page
    assert "ousel receipt check --witness" in page
    assert "&lt;b&gt;Lunch" in page
    assert "<b>Lunch" not in page


async def test_each_page_leads_to_the_check(portal: Portal) -> None:
    assert '<a href="/verify">Check a receipt</a>' in (await portal.visitor().get("/login")).text


async def test_a_file_is_as_good_as_a_text(portal: Portal) -> None:
    """It is sent as multipart/form-data, which only this page accepts."""
    status, page = await upload(portal.visitor(), RECEIPT)

    assert status == 200, page
    assert "The receipt is genuine" in page


@pytest.mark.parametrize("end", ["", "\r\n", "\r\n\r\n"])
async def test_a_proof_text_may_be_pasted_with_any_line_ends(portal: Portal, end: str) -> None:
    """Whoever marks a text with the mouse often leaves out the last line end, or adds one."""
    log, index = log_with(movement())
    text = encode_proof_text(log.inclusion(index)).rstrip("\n").replace("\n", "\r\n")
    status, page = await check(portal.visitor(), receipt=text + end, key=VKEY)

    assert status == 200, page
    assert "The receipt is genuine" in page


async def test_a_changed_receipt_proves_nothing(portal: Portal) -> None:
    visitor = portal.visitor()
    status, page = await upload(visitor, RECEIPT.replace(b"Lunch", b"Lunck"))
    assert status == 400
    assert "This receipt proves nothing." in page
    assert "was changed, or it was signed with another key" in page

    for content in (b"\xff\xfe", b"\x00", b"{}", b"x" * 60_000):
        status, page = await upload(visitor, content)
        assert (status, "This receipt proves nothing." in page) == (400, True)


@pytest.mark.parametrize("given", ["", VKEY], ids=["no key", "key given"])
@pytest.mark.parametrize(
    "key", [LogKey(KEY), LogKey(KEY).create_successor()], ids=["current", "former"]
)
async def test_a_receipt_of_this_log_is_checked_with_its_own_key(
    database_url: str, tmp_path: Path, key: LogKey, given: str
) -> None:
    """The page says so, whether the key is given or not, and whether it is the current one."""
    write_key(tmp_path / "key", key)
    own = {"portal_url": f"http://{ORIGIN.removesuffix('/log')}", "log_key_file": tmp_path / "key"}
    async with open_portal(database_url, **own) as portal:
        status, page = await check(portal.visitor(), receipt=RECEIPT.decode(), key=given)

    assert status == 200, page
    assert "The receipt is genuine.<" in page
    assert "It was checked with the key of this log.<" in page


async def test_a_key_that_only_bears_the_name_of_this_log_is_refused(
    database_url: str, tmp_path: Path
) -> None:
    """Anyone can make such a key, and sign a log with it."""
    write_key(tmp_path / "key", new_key(ORIGIN))
    own = {"portal_url": f"http://{ORIGIN.removesuffix('/log')}", "log_key_file": tmp_path / "key"}
    async with open_portal(database_url, **own) as portal:
        status, page = await check(portal.visitor(), receipt=RECEIPT.decode(), key=VKEY)

    assert status == 400
    assert "This receipt proves nothing." in page
    assert f"this server does not know this key as one of the log {ORIGIN}." in page
    assert "genuine" not in page


async def test_a_receipt_of_another_log_is_as_good_as_the_key_that_is_given(
    portal: Portal,
) -> None:
    """The page names the key and says that it must be trusted, also if the receipt is refused."""
    visitor = portal.visitor()
    status, page = await check(visitor, receipt=RECEIPT.decode(), key=VKEY)
    assert status == 200
    assert "The receipt is genuine if the key is." in page
    checked_with = f"It was checked with the key {VKEY}, which you gave"
    assert f"{checked_with}: it proves nothing unless you have this key from somebody" in page

    status, page = await check(visitor, receipt=RECEIPT.decode()[:-3], key=VKEY)
    assert status == 400
    assert f"{checked_with}." in page


async def test_the_own_key_is_used_unless_another_is_given(portal: Portal) -> None:
    """A receipt of another Ousel needs that Ousel's key."""
    visitor = portal.visitor()
    status, page = await check(visitor, receipt=RECEIPT.decode())
    assert status == 400
    assert "signed with another key. It was checked with the key of this log." in page
    status, page = await check(visitor, receipt=RECEIPT.decode(), key="nonsense")
    assert status == 400
    assert "The reason: the key is not in the form" in page
    portal.log.key_holder.key = None
    status, page = await check(visitor, receipt=RECEIPT.decode())
    assert status == 400
    assert "The reason: this server has no key of its own, so give the verifier key." in page


@pytest.mark.parametrize(
    "member", ["[" * 900 + "]" * 900, f"[{'1,' * 9_000}1]"], ids=["deep", "wide"]
)
async def test_what_is_larger_than_any_receipt_is_refused_at_once(
    portal: Portal, member: str
) -> None:
    """To format it again, as is tried with receipts, could take many seconds."""
    status, page = await upload(portal.visitor(), f'{{"transfer":{{}},"x":{member}}}'.encode())
    assert status == 400
    assert "The reason: the receipt has more values or levels than a receipt can have." in page


@given(
    fields=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters='"\r\n'), min_size=1, max_size=20),
        st.text(st.sampled_from("-\r\nxä:"), max_size=30).filter(lambda text: "--x" not in text),
        min_size=1,
    )
)
def test_a_form_with_files_is_read_as_browsers_write_it(fields: dict[str, str]) -> None:
    """Each field has its whole text, with its line breaks and dashes."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="r"\r\n'
        f"Content-Type: text/plain\r\n\r\n{content}\r\n"
        for name, content in fields.items()
    ]
    request = Request(
        method="POST",
        path="/verify",
        query=b"",
        headers={b"content-type": b"multipart/form-data; boundary=x"},
        body=f"{''.join(parts)}--x--\r\n".encode(),
        ip_address="192.0.2.1",
    )
    assert read_form(request, may_have_files=True) == fields


async def test_an_empty_form_asks_for_a_receipt(portal: Portal) -> None:
    visitor = portal.visitor()
    for sent in (await check(visitor), await upload(visitor, b"")):
        assert sent[0] == 400
        assert "Choose the file of a receipt, or paste its text." in sent[1]


async def test_a_form_with_files_is_bounded_and_protected(portal: Portal) -> None:
    """Too large a file, a malformed body and a form of another site are refused."""
    visitor = portal.visitor()
    assert (await upload(visitor, b"x" * 70_000))[0] == 413
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=x"):
        answer = await visitor.client.post(
            "/verify", content=b"nonsense", headers={"Content-Type": content_type}
        )
        assert answer.status_code == 400
    for parameters in ("; a=b" * 10_000, "; boundary=" + "(" * 1_000, "; boundary=x; a=b"):
        headers = {"Content-Type": f"multipart/form-data{parameters}"}
        answer = await visitor.client.post("/verify", content=b"--x--", headers=headers)
        assert answer.status_code == 400
    answer = await visitor.client.post("/verify", files={"file": ("r", RECEIPT)})
    assert answer.status_code == 403
    answer = await visitor.client.post("/login", files={"file": ("r", RECEIPT)})
    assert answer.status_code == 415
