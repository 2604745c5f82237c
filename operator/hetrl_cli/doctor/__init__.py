"""``hetrl doctor``: why HetRL or a job does not work on a cluster, with remedies.

``facts`` reads the API server once and keeps the responses, refusals too; the other modules turn
facts into findings, without requests. A finding is here only if it names a cause and a remedy.
"""
