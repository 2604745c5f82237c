"""The best layout there is, by enumeration: what the planner's searches are held against.

Written from ``layout``'s definition of what a plan may be, never from a search's candidates:
``cuts`` enumerates what a task can do, ``optimum`` combines tasks and bounds what it need not
look at, ``exhaustive`` combines without bounds where that ends in time. ``instances`` draws
fleets and jobs small enough. All prices are the evaluator's.
"""
