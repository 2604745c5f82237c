"""Faults between the operator and a real API server, and the life of a job that they interrupt.

Here belong the proxy that makes the faults (``proxy``, ``watches``), the operator as a process
that dies and comes back (``operator``), one job's life played through the API (``life``) and what
must be the same however it was disturbed (``snapshot``, ``sweep``). The cluster itself is
`e2e.cluster`'s; which faults gate a landing is `tests/faults`', all of them `bench/proof/faults`'.
"""
