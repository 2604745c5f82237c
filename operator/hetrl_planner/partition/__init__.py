"""A weighted graph of devices and the parts' sizes in, which device goes to which part out.

Cuts, chains of swaps and an evolutionary search propose; a cost that is handed in decides.
Nothing here knows jobs, models or plans, and no search looks at a clock: randomness, the
number of evaluations and ``should_stop`` are passed in. ``find.find_partition`` is the way in.
"""
