"""How fast the runtime is beside the tools that people would otherwise take.

Here belong whole steps beside TRL's, and beside what no step can do without; generation beside
transformers' and vLLM's; and asynchronous runs beside synchronous ones and beside what the
simulator says of them. Each side runs in a process of its own, on the same task, model and cores,
in turns. The planner's benches are ``planner``'s; what a run learns is proved in ``proof``.
"""
