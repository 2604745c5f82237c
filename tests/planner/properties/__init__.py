"""Properties of every plan that Auto makes, for any fleet and job.

Plans are previews here: tasks share GPUs, pipelines mix kinds.
"""
