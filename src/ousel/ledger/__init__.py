"""The ledger: rules (pure), the queue and batches of postings, the journal's rows, verification."""
