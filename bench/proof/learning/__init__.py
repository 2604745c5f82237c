"""Proves that runs learn, and learn from their rewards: `make proof-learning`, hours, resumable.

Here belong the matrix of runs and what each must come to (``cases``), how one is played by
`hetrl demo` and kept (``play``), and what is said of all of them (``page``, ``figure``). What a
run does is the product's: a case only changes fields of an example's job.
"""
