"""Examples of every operation with the clients for Python and TypeScript, for the reference.

`client` is a client for a partner key. Readers replace other names that are not defined.
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
    "createCharge": 'charge = client.charges.create(amount="25.00", idempotency_key="order-2001")',
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
    "getUserBalance": "user = client.user(token)\nbalance = user.balance()",
    "advanceSandboxClock": "client.sandbox.advance_clock(7200)",
    "paySandboxCharge": 'charge = client.sandbox.pay(charge_id, payer="@ada")',
    "listSandboxMail": (
        'for mail in client.sandbox.mail(to="ada@example.com"):\n    print(mail.subject, mail.text)'
    ),
    "startRehearsal": 'rehearsal = client.sandbox.start_rehearsal("answer-lost-after-commit")',
    "getRehearsal": "rehearsal = client.sandbox.get_rehearsal(rehearsal_id)",
    "finishRehearsal": (
        "rehearsal = client.sandbox.finish_rehearsal(rehearsal_id)\n"
        "for grade in rehearsal.grades:\n"
        "    print(grade.rule, grade.verdict, grade.reason)"
    ),
    "fundSandboxAccount": 'client.sandbox.fund(to="@ada", amount="25.00")',
}

TYPESCRIPT_EXAMPLES: Final = {
    "getMe": "const me = await client.me();",
    "getBalance": "const balance = await client.balance();",
    "getAccount": 'const account = await client.accounts.get("@ada");',
    "createTransfer": (
        "const transfer = await client.transfers.send({\n"
        '  to: "@ada", amount: "25.00", idempotency_key: "order-2001",\n'
        "});"
    ),
    "listTransfers": (
        'for await (const transfer of client.transfers.list({ direction: "out" })) {\n'
        "  console.log(transfer.id, `${transfer.amount}`);\n"
        "}"
    ),
    "getTransfer": "const transfer = await client.transfers.get(transferId);",
    "getReceipt": "const receipt = await client.transfers.receipt(transferId);",
    "createCharge": (
        "const charge = await client.charges.create({\n"
        '  amount: "25.00", idempotency_key: "order-2001",\n'
        "});"
    ),
    "listCharges": (
        'for await (const charge of client.charges.list({ status: "created" })) {\n'
        "  console.log(charge.id, `${charge.amount}`);\n"
        "}"
    ),
    "getCharge": "const charge = await client.charges.get(chargeId);",
    "cancelCharge": "const charge = await client.charges.cancel(chargeId);",
    "createUserToken": (
        "const token = await client.exchangeCode(code, {\n"
        "  client_id: clientId, redirect_uri: redirectUri, code_verifier: codeVerifier,\n"
        "});"
    ),
    "revokeUserToken": "await client.revoke(token, { client_id: clientId });",
    "getUser": "const user = client.user(token);\nconst person = await user.me();",
    "getUserBalance": ("const user = client.user(token);\nconst balance = await user.balance();"),
    "advanceSandboxClock": "const now = await client.sandbox.advanceClock(7200);",
    "paySandboxCharge": ('const charge = await client.sandbox.pay(chargeId, { payer: "@ada" });'),
    "listSandboxMail": (
        'for await (const mail of client.sandbox.mail({ to: "ada@example.com" })) {\n'
        "  console.log(mail.subject, mail.text);\n"
        "}"
    ),
    "startRehearsal": (
        'const rehearsal = await client.sandbox.startRehearsal(\n  "answer-lost-after-commit",\n);'
    ),
    "getRehearsal": "const rehearsal = await client.sandbox.getRehearsal(rehearsalId);",
    "finishRehearsal": (
        "const rehearsal = await client.sandbox.finishRehearsal(rehearsalId);\n"
        "for (const { rule, verdict, reason } of rehearsal.grades) {\n"
        "  console.log(rule, verdict, reason);\n"
        "}"
    ),
    "fundSandboxAccount": 'await client.sandbox.fund({ to: "@ada", amount: "25.00" });',
}
