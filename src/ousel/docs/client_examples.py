"""Examples of every operation with the Python client, for the reference.

`client` is a client for a partner key, `user` one for a user token. Readers replace other names.
"""

from typing import Final

PYTHON_EXAMPLES: Final = {
    "getMe": "me = client.me()",
    "getBalance": "balance = client.balance()",
    "getAccount": 'account = client.accounts.get("@ada")',
    "createTransfer": (
        "transfer = client.transfers.send(\n"
        '    to="@ada", amount="25.00", idempotency_key="order-2001"\n'
        ")"
    ),
    "listTransfers": (
        'for transfer in client.transfers.list(direction="out"):\n'
        "    print(transfer.id, transfer.amount)"
    ),
    "getTransfer": "transfer = client.transfers.get(transfer_id)",
    "getReceipt": "receipt = client.transfers.receipt(transfer_id)",
    "createCharge": (
        "charge = client.charges.create(\n"
        '    amount="25.00", description="A book", reference="order-1001"\n'
        ")"
    ),
    "listCharges": (
        'for charge in client.charges.list(status="created"):\n    print(charge.id, charge.amount)'
    ),
    "getCharge": "charge = client.charges.get(charge_id)",
    "cancelCharge": "charge = client.charges.cancel(charge_id)",
    "createUserToken": (
        "token = client.exchange_code(\n"
        "    code, client_id=client_id, redirect_uri=redirect_uri, code_verifier=code_verifier\n"
        ")"
    ),
    "revokeUserToken": "client.revoke(token, client_id=client_id)",
    "getUser": "user = client.user(token)\nperson = user.me()",
    "getUserBalance": "balance = user.balance()",
    "advanceSandboxClock": "client.sandbox.advance_clock(7200)",
    "paySandboxCharge": 'charge = client.sandbox.pay(charge_id, payer="@ada")',
    "listSandboxMail": (
        'for mail in client.sandbox.mail(to="ada@example.com"):\n    print(mail.subject, mail.text)'
    ),
    "startRehearsal": 'rehearsal = client.sandbox.start_rehearsal("answer-lost-after-commit")',
    "getRehearsal": "rehearsal = client.sandbox.get_rehearsal(rehearsal.id)",
    "finishRehearsal": (
        "rehearsal = client.sandbox.finish_rehearsal(rehearsal.id)\n"
        "for grade in rehearsal.grades:\n"
        "    print(grade.rule, grade.verdict, grade.reason)"
    ),
    "fundSandboxAccount": 'client.sandbox.fund(to="@ada", amount="25.00")',
}
