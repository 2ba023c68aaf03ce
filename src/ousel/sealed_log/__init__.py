"""The sealed log: a public Merkle tree of all movements, from which receipts are made.

- the tree and its signatures: `merkle`, `tiles`, `leaves`, `notes`, `checkpoints`, `cosignatures`
- adding movements: `sealer`, `prepared_leaves`, `backfill`, `keys`, `published`
- reading the log: `log`, `service`, `notifier`, `endpoints`, `refusals`
- receipts: `receipts`, `proof_text`, `receipt_json`, `receipt_check`, `receipt_sentences`
- checking a log: `verification`, `audit`, `remote`
- witnesses: `cosigning`, `witness_client`, `witness_rules`, `witness_server`
- rows: `store`
"""
