"""The ledger: its rules, the queue and batches of postings, the journal's rows, verification.

- moving money: `queue`, `writer`, `batch`, `rules`, `refusals`, `funding`
- what is checked in the same transaction: `partner_key_check`, `interfaces`
- rows: `journal`, `places`, `totals`
- reading: `history`, `search`, `following`, `notifier`, `movements`, `recent_movements`
- verification: `verify`, `verify_process`, `dates`, `bucket_sums`, `duplicate_finder`, `export`,
  `extension`
"""
