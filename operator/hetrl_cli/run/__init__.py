"""``hetrl run``: one job on this machine, with no cluster, no root and no container.

This package turns a plan into local processes (contracts, ports, certificates), supervises them
as a StatefulSet would, and shows progress. The processes are the same as in pods and read
everything from the launch contract; what they compute, and the final report, are the runtime's.
"""
