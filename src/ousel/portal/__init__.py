"""Pages for partners and people: signing in, activity, apps, settings.

- signing in: `sign_in`, `recovery`, `identity_check`
- money: `activity`, `verify`
- settings: `settings`, `emails`, `passkeys`, `passkey_options`, `connections`
- apps: `apps`, `app_editor`, `app_overview`, `app_addresses`, `keys`, `charges`
- what pages need: `repeatable_requests` for forms, `docs_keys` for the API reference
"""
