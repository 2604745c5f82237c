"""Access to a cluster: the connection, and the fleet that its nodes describe."""
