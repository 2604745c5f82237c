"""What a candidate costs: seconds, bytes and dollars, from datasheet figures.

One small function a term, each with its equation and its source; totals are visible sums.
Nothing here compares or chooses. Constants that no datasheet or paper gives are named at
the top of their file and said to be ours.
"""
