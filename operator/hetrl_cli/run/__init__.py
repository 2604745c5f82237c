"""``hetrl run``: one job on this machine, with no cluster, no root and no container.

Here belong a plan's way into local processes (contracts, ports, certificates), their
supervision as a StatefulSet would do it, and what is shown meanwhile. The processes are the
same as in pods and are told everything through the launch contract; what they compute, and
the report at the end, are the runtime's.
"""
