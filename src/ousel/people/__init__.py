"""Signing in: passwords, sessions, second factors, failed attempts, and audit events.

- signing in and out: `sign_in`, `passkey_sign_in`, `session_lookup`
- passwords: `passwords`, `password_check`, `password_change`, `recovery`
- second factors: `second_factor`, `factor_secrets`, `secret_file`, `passkeys`
- checks and their limits: `identity_check`, `attempts`
- an account's settings: `account_settings`, `email_confirmation`
- what happened, and who is told: `audit`, `event_source`, `notices`, `letters`, `retention`
- rows and rules: `store`, `factor_store`, `rules`
"""
