"""Requests to the API server: the client, its rate limit, the only writer, leader election."""
