"""The ledger: its rules, the queue and batches of postings, the journal's rows, verification."""
