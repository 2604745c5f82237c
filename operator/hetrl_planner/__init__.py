"""A fleet and a job in, ``Plan | Infeasible`` out.

No clock and no I/O: random numbers and ``should_stop`` are passed in. Costs live in
``cost``; searches only compare them. Pods and manifests are not known here.
"""
