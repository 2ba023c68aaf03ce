"""Charges: a partner asks for an amount, and a payer pays it on a hosted checkout page.

- the API: `endpoints`, `records`; the checkout: `pages`, `checkout`
- reading and waiting: `service`, `reader`, `search`, `notifier`
- changing: `transitions`, and `payment` in the ledger's transaction
- rules and rows: `lifecycle`, `rules`, `refusals`, `store`
- for `ousel verify`: `verification`
"""
