"""The processes that train together: rendezvous, process groups, messages between them."""
