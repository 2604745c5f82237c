"""Questions about other fleets and budgets: cost-time frontier, and what limits a plan."""
