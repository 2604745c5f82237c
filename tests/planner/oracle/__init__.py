"""The oracle: the optimal layout by enumeration, to which the planner's searches are compared.

It follows ``layout``'s rules, never a search's candidates: ``cuts`` enumerates the ways of a task,
``optimum`` combines tasks with branch and bound, and ``exhaustive`` combines them without bounds
if that ends in time. ``instances`` draws fleets and jobs that are small enough. The evaluator
prices all layouts.
"""
