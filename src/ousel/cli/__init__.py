"""The command line for operators.

- how a command is found and run: `main`, `command_table`, `command_group`, `plain_parameters`
- what commands share: `console`, `tables`, `databases`
- a server, its processes and its schema: `serve`, `server`, `supervisor`, `proxies`, `migrate`
- accounts and apps: `accounts`, `partners`
- checks and copies: `verify`, `verification`, `export`, `backups`, `receipts`
- the sealed log, and secrets: `log`, `log_keys`, `secrets`
- trying and measuring: `demo`, `shop`, `until_parent_ends`, `bench`, `top`, `scrapes`
"""

from ousel.cli.main import main

__all__ = ["main"]
