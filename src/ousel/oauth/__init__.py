"""Connect: people let an app read their account, by OAuth 2.0's authorization code grant."""
