"""What-if analyses: the cost-time frontier, and the bottlenecks of a plan."""
