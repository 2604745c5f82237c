"""``hetrl doctor``: why HetRL or a job does not work on a cluster, and what mends it.

``facts`` asks the API server once and keeps what it answered, refusals too; the other files turn
facts into findings, asking nothing. A finding is here only if it names a cause and a remedy.
"""
