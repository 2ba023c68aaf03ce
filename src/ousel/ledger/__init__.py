"""The books: pure rules, rows, group commit and their verification."""
