"""Speed of the runtime compared with other tools.

This package compares whole steps with TRL's and with a lower bound; generation with transformers'
and vLLM's; and asynchronous runs with synchronous ones and with the simulator's predictions. Each
side runs in a process of its own, on the same task, model and cores, in turns. ``planner`` has the
planner's benches; ``proof`` checks what a run learns.
"""
