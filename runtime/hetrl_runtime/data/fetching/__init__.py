"""Fetching of remote data: files of a hub or a store, once, the same for the whole run."""
