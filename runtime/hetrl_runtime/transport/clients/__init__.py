"""Clients of the coordinator and of inference workers."""
