"""The identity of a training run as its trainer knows it, for its checkpoints.

Data are the coordinator's to identify: they are where it is.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from huggingface_hub import snapshot_download
from pydantic import TypeAdapter

from hetrl_core.job.identity import Aspect, Identity, Value
from hetrl_core.job.reward import RewardPart
from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_core.launch import Launch

_SAMPLE_BYTES = 4096
_WHOLE = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)
_IDENTITY: TypeAdapter[Identity] = TypeAdapter(dict[Aspect, Value])


def identity_of(launch: Launch) -> dict[Aspect, Value]:
    """Return what a run's checkpoints are of, but for the data.

    Raises:
        OSError: the model's files cannot be read.
    """
    model = launch.model
    name = f"{model.source} at revision {model.revision}" if model.revision else model.source
    return {
        Aspect.MODEL: Value(name=name, digest=model_digest(_folder(model))),
        Aspect.ALGORITHM: Value(name=str(launch.algorithm.type)),
        Aspect.REWARD: Value(name=_reward(launch.data)),
        Aspect.SEED: Value(name=str(launch.training.seed)),
    }


def model_digest(folder: Path) -> str:
    """Return the digest of a model: cheap however large it is, another for any other weights.

    Configuration and tokenizer count whole; of weights the name, type, shape and first, middle and
    last 4 KiB of every tensor, in whichever files they are: training changes every tensor that it
    trains.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file of weights has no header.
    """
    digest = hashlib.sha256()
    for path in sorted(each for name in _WHOLE if (each := folder / name).is_file()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    for sample in sorted(chain.from_iterable(map(_samples, folder.glob("*.safetensors")))):
        digest.update(sample)
    return digest.hexdigest()


def to_json(identity: Identity) -> bytes:
    """Write an identity for a checkpoint."""
    return _IDENTITY.dump_json(identity)


def from_json(text: bytes) -> Identity:
    """Read what ``to_json`` wrote; ``ValueError`` where the text is something else."""
    return _IDENTITY.validate_json(text)


def _samples(path: Path) -> Iterator[bytes]:
    """Yield what stands for each tensor of a file of weights, beginning with its name."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
        header.pop("__metadata__", None)
        data_at = 8 + header_bytes
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            described = json.dumps([name, tensor["dtype"], tensor["shape"]])
            yield described.encode() + _sampled(file, data_at + begin, data_at + end)


def _sampled(file: BinaryIO, begin: int, end: int) -> bytes:
    middle, last = (begin + end) // 2, end - _SAMPLE_BYTES
    found = b""
    for start in (begin, middle, last):
        file.seek(max(begin, start))
        found += file.read(min(_SAMPLE_BYTES, end - begin))
    return hashlib.sha256(found).digest()


def _folder(model: ModelFiles) -> Path:
    if model.is_path:
        return Path(model.source)
    # It has been loaded, so its files are here.
    return Path(
        snapshot_download(model.source, revision=model.revision or None, local_files_only=True)
    )


def _reward(data: DataSpec) -> str:
    """Return how responses are scored; what a user may correct on the way is left out.

    Those are limits, and the code of a function.
    """
    options = _named_rewards(data) if data.rewards else _settings(data.parts[0])
    if data.model:
        options["model"] = f"{data.model.source}@{data.model.revision}".rstrip("@")
    if data.length_penalty:
        options["lengthPenalty"] = asdict(data.length_penalty)
    if data.tools:
        options["tools"] = [*data.tools]
    return f"{data.reward} {json.dumps(options, sort_keys=True)}" if options else str(data.reward)


def _named_rewards(data: DataSpec) -> dict[str, object]:
    named = [
        {"name": each.name, "reward": each.reward, "weight": each.weight}
        | ({"sources": sorted(each.sources)} if each.sources else {})
        | _settings(each)
        for each in data.rewards
    ]
    has_sources = any(each.sources for each in data.rewards)
    return {"rewards": named} | ({"sourceField": data.source_field} if has_sources else {})


def _settings(part: RewardPart) -> dict[str, object]:
    found: dict[str, object] = {}
    if part.math and part.math.answer_forms:
        found["answerForms"] = sorted(part.math.answer_forms)
    if part.regex:
        found["pattern"] = part.regex.pattern
    if part.python:
        found["function"] = f"{Path(part.python.file).name}:{part.python.function}"
    return found
