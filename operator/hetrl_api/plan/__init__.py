"""HetRLPlan: a plan as an object, and its conversion from and to the core's ``Plan``."""
