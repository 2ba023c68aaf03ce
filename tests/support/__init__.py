"""Shared setups and helpers for tests. The most used are:

- `accounts`: people with money and partners with keys, on an open database
- `world`: a server process, its database, and partners that call it
- `seeded`: a database or server with one partner and five people
- `portal`, `visitor`: the service in the test's process, and people who visit its pages
- `shop`: a partner that creates charges, and a payer
- `browser_world`: a server and a browser, with sample data
"""
