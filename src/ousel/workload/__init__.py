"""Work for a server to be measured by: books to work on, and a load over HTTP."""
