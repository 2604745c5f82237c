"""A model's files read into one place of a split: no process reads or keeps more than its part."""

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.folder import files_of_weights
from hetrl_runtime.model_files.loading import untied
from hetrl_runtime.trainer.parallel import sharding, tensor
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.stage import Stage, empty_model, materialise
from hetrl_runtime.trainer.parallel.tensors import LEADER, Whole, copy_into, local
from hetrl_runtime.trainer.parallel.vocabulary import VocabularyShard


def stage_of(
    folder: Path, config: Any, mesh: Mesh, *, temperature: float, kind: type[Stage] = Stage
) -> Stage:
    """Return this process's part of the model in ``folder``, divided and on its device.

    A head that the files do not have is zero.

    Raises:
        ValueError: the model cannot be cut into these parts.
        OSError: a file is missing.
        KeyError: a tensor is.
    """
    place = mesh.place
    layers = place.layers(config.num_hidden_layers)
    model = empty_model(config, layers, is_first=place.is_first_stage, is_last=place.is_last_stage)
    kind.fit(model)
    cuts_head = place.is_last_stage and kind.SCORES_TOKENS
    partial = (
        tensor.cut(model, mesh.tensor, cuts_head=cuts_head)
        if place.split.tensor > 1
        else frozenset[str]()
    )
    stage = kind(
        model,
        first_layer=layers.start,
        is_first=place.is_first_stage,
        is_last=place.is_last_stage,
        ties_ends=config.tie_word_embeddings and kind.SCORES_TOKENS,
        temperature=temperature,
        partial=partial,
        whole_config=config,
    )
    if place.split.tensor > 1 and cuts_head:
        # As PyTorch divides: all parts but the last ones are of one size.
        per_rank = -(-config.vocab_size // place.split.tensor)
        stage.shard = VocabularyShard(mesh=mesh.tensor, first=per_rank * place.tensor_rank)
    sharding.shard(stage, mesh)
    materialise(model, mesh.device)
    parameters = stage.parameters_by_file_name()
    if place.is_last_stage and not kind.SCORES_TOKENS:
        nn.init.zeros_(local(parameters.pop(kind.HEAD)))
    if config.tie_word_embeddings and place.rank == LEADER:
        _expect_tied(folder)
    _read(folder, parameters)
    return stage


def tensors_of(config: Any, mesh: Mesh, kind: type[Stage] = Stage) -> dict[str, Whole]:
    """Return every tensor of the model's files, and the first stage that holds it."""
    whole = empty_model(config, range(config.num_hidden_layers), is_first=True, is_last=True)
    kind.fit(whole)
    ends = _last_layers(mesh.place.split.stage_layers or (config.num_hidden_layers,))
    return {
        (kind.HEAD if name == "lm_head.weight" else name): Whole(
            shape=tuple(parameter.shape), stage=_stage(name, ends)
        )
        for name, parameter in whole.named_parameters()
    }


def _last_layers(stage_layers: tuple[int, ...]) -> list[int]:
    return [sum(stage_layers[: number + 1]) for number in range(len(stage_layers))]


def _stage(name: str, ends: list[int]) -> int:
    if name.startswith("model.embed_tokens."):
        return 0
    if not name.startswith("model.layers."):
        return len(ends) - 1
    layer = int(name.split(".")[2])
    return next(stage for stage, end in enumerate(ends) if layer < end)


def _read(folder: Path, parameters: dict[str, nn.Parameter]) -> None:
    missing = {*parameters}
    for file in files_of_weights(folder):
        with safe_open(file, framework="pt") as opened:
            for name in sorted(missing.intersection(opened.keys())):
                copy_into(parameters[name], opened.get_tensor(name).to(torch.float32))
                missing.remove(name)
    if missing:
        raise KeyError(f"{folder} has no {min(missing)}")


def _expect_tied(folder: Path) -> None:
    """Refuse a head that is not the embedding, where the model is to have one of them alone."""
    found = {}
    for file in files_of_weights(folder):
        with safe_open(file, framework="pt") as opened:
            for name in {"lm_head.weight", "model.embed_tokens.weight"}.intersection(opened.keys()):
                found[name] = opened.get_tensor(name)
    if len(found) > 1 and not torch.equal(*found.values()):
        raise ModelError(untied(f"model {folder}"))
