"""The only package that knows kopf: handlers, trimming of watched objects, start and shutdown."""
