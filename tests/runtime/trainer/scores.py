"""A policy's scores of a whole batch at once, with gradients."""

from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.model.model import Policy, TokenScores


def scores_of(policy: Policy, batch: Batch) -> TokenScores:
    """Log-probability and entropy of every sampled token, by a model with one stage.

    Positions that are padding hold finite values without meaning.
    """
    found = policy.stage(
        batch.tokens_BT,
        is_token_BT=batch.is_token_BT,
        prompts_B=batch.prompts_B,
        responses_BR=batch.responses_BR,
    )
    return TokenScores(log_probs_BR=found[0], entropies_BR=found[1])
