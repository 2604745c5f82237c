"""The inference worker: scores responses with frozen models, on GPUs of its own.

    rollout workers ── prompt and response ──▶ turns ─▶ model ─▶ log-probabilities ──▶ back

What belongs here: whose turn it is, the model, and the service that is asked. What does not: who
asks and when (``rollout``), how a model is cut and computed (``trainer.parallel``), and what the
answers are for (``trainer``). It keeps nothing: a response that is asked about again, of this
worker or of another, has the same answer.
"""
