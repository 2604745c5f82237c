"""The inference worker: scores responses with frozen models, on GPUs of its own.

    rollout workers ── prompt and response ──▶ queue ─▶ model ─▶ log-probabilities ──▶ back

This package has the request queue, the model and the gRPC service. ``rollout`` sends the requests,
``trainer.parallel`` splits and computes a model, and ``trainer`` uses the answers. It is stateless:
a repeated request, to this worker or to another, gets the same answer.
"""
