"""What all other packages use, without the database and without HTTP.

- settings: `settings`, `mail_servers`, `urls`
- values: `money`, `ids`, `account_numbers`, `texts`, `clock`
- refusals and limits: `errors`, `concurrency`, `deadlines`, `nesting`
- running: `cancellation`, `futures`, `threads`, `garbage_collection`, `programs`
- files, logs and observers: `files`, `logs`, `observers`
"""
