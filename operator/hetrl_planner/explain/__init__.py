"""Why a plan is good or missing: an upper bound, reasons for infeasibility, alternatives."""
