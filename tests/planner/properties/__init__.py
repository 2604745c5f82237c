"""What holds of every plan that Auto makes, whatever the fleet and the job.

Plans are previews here: tasks share GPUs, pipelines mix kinds.
"""
