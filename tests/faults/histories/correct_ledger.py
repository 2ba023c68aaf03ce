"""Histories of a ledger that is correct by construction, to try the checkers on."""

from random import Random

from tests.faults.histories.history import Entry, Group, Operation

ACCOUNTS = ("left", "right")
OPENING = 100
LOST = 0.15  # so many answers are lost
REFUSED = 0.1  # so many requests are refused unwritten
RETRIED = 0.3  # so many transfers are sent once more


class CorrectLedger:
    """Executes operations one after the other, while their callers wait for some time."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)
        self._now = 0.0
        self._balances = dict.fromkeys(ACCOUNTS, OPENING)
        self._entries: dict[str, list[Entry]] = {account: [] for account in ACCOUNTS}
        self._executed: dict[str, str] = {}
        self._operations: list[Operation] = []
        self._sent: list[Operation] = []

    def history(self, length: int) -> Group:
        """Return a history of so many operations."""
        for number in range(length):
            self._now += 1.0
            action = self._dice.choice(("transfer", "transfer", "balance", "lookup"))
            if action == "balance":
                account = self._dice.choice(ACCOUNTS)
                self._answer(action="balance", account=account, result=self._balances[account])
            elif action == "lookup" and self._sent:
                sent = self._dice.choice(self._sent)
                self._answer(
                    action="lookup",
                    account=sent.account,
                    intent=sent.intent,
                    result=self._executed.get(sent.intent),
                )
            else:
                self._transfer(number)
        return Group(
            number=0,
            operations=self._operations,
            opening=dict.fromkeys(ACCOUNTS, OPENING),
            entries=self._entries,
        )

    def _transfer(self, number: int) -> None:
        if self._sent and self._dice.random() < RETRIED:
            earlier = self._dice.choice(self._sent)
            intent, account, amount = earlier.intent, earlier.account, earlier.amount
        else:
            intent, account = f"intent-{number}", self._dice.choice(ACCOUNTS)
            amount = self._dice.randint(1, 60)
        recipient = ACCOUNTS[1 - ACCOUNTS.index(account)]
        written = self._dice.random() >= REFUSED
        if written and intent not in self._executed and self._balances[account] >= amount:
            self._executed[intent] = f"tr_{number}"
            for who, change in ((account, -amount), (recipient, amount)):
                self._balances[who] += change
                entry = Entry(f"tr_{number}", intent, change, self._balances[who])
                self._entries[who].append(entry)
        lost = self._dice.random() < LOST
        self._answer(
            action="transfer",
            account=account,
            recipient=recipient,
            intent=intent,
            amount=amount,
            outcome="unknown" if lost else "ok" if written else "fail",
            result=self._executed.get(intent) if written and not lost else None,
        )
        self._sent.append(self._operations[-1])

    def _answer(self, **fields: object) -> None:
        """Record an operation that took effect now."""
        operation: dict[str, object] = {
            "group": 0,
            "outcome": "ok",
            "invoked": self._now - self._dice.random() * 3,
            "returned": self._now + self._dice.random() * 3,
            **fields,
        }
        self._operations.append(Operation(**operation))  # type: ignore[arg-type]
