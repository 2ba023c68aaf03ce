"""Connect: people let an app read their account, by OAuth 2.0's authorization code grant.

- a person gives consent: `pages`, `connect`, `connect_urls`
- an app gets a token: `endpoints`, `client_authentication`, `records`
- an app uses its token: `user_endpoints`, `token_lookup`
- tokens and connections: `service`, `store`, `rules`, `refusals`
"""
