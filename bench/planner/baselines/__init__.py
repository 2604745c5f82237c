"""The planners that HetRL's is compared with, one policy a file.

A policy takes one job on one fleet and returns a ``Layout``, or ``None`` if nothing that its
original could run fits. All are priced by the same cost model, with the same catalogue.
What the originals do not do (dividing data and layers by speed) they do not do here either:
``equal_shares`` prices them so. They are frozen: what changes them changes published ratios.

Not here: fleets and workloads (``bench.planner.scenarios``), and anything of HetRL's own search
but the encoding of its genomes, which random search and the two genetic algorithms share.
"""
