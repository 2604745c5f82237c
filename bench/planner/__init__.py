"""The planner beside others: one command a table or figure, results into ``docs/results``.

Here belong fleets and workloads of the papers, baselines, and what draws the tables. Not here:
anything that the product needs, and the oracle of the tests.
"""
