"""HetRL's ILP: which tasks share which machines, chosen exactly among priced columns.

A column is a set of tasks on a bundle of machines, decoded and priced by the cost model; the
program picks columns that together do all tasks with the machines there are. The paper says only
that an ILP exists (arXiv 2512.12476); this formulation, a set partition, is ours. What happens
inside a column is the decoder's, and what evolution adds from there is ``hetrl``'s.
"""
