"""What kwok's nodes cannot show: real trainers that lose their node, or their turn in a queue.

Each story is a job's on real kubelets, timed, and ends where something does not hold.
"""
