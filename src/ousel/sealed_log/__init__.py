"""The sealed log: a public Merkle tree of all movements, from which receipts are made."""
