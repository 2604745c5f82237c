"""An extension of vLLM's worker processes that loads a version into the model.

vLLM mixes this class into its worker (``worker_extension_cls``); ``vllm.py`` calls it over
vLLM's ``collective_rpc``.
"""

from typing import Any

from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.platforms import current_platform


class WeightLoading:
    """Adds ``load_version`` to a vLLM worker."""

    model_runner: Any
    reload_weights: Any

    def load_version(self, folder: str) -> None:
        """Load a folder's safetensors over the running model; nothing may be generating."""
        self.reload_weights(weights_path=folder)
        if current_platform.is_cpu():
            self._pack_output_matrix()

    def _pack_output_matrix(self) -> None:
        # vLLM's CPU kernels compute with packed copies and reloading renews those of the
        # matrices that it finds in the file. A tied output matrix is not in the file: left
        # alone, old logits would come from new hidden states.
        for module in self.model_runner.get_model().modules():
            if isinstance(module, ParallelLMHead):
                module.quant_method.process_weights_after_loading(module)
