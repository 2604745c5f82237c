"""What a checkpoint is of, and who may continue and write it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from huggingface_hub import constants

from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.job.identity import Aspect, Value
from hetrl_core.job.reward import AnswerForm, MathReward, RegexReward, RewardPart
from hetrl_core.job.spec import DataSpec, ModelFiles, TrainingSpec
from hetrl_ownership.owned_folder import InUseError
from hetrl_runtime.trainer.checkpoints import checkpoint
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointError, CheckpointFolder, read
from hetrl_runtime.trainer.checkpoints.continuation import recorded_identity
from hetrl_runtime.trainer.checkpoints.identity import identity_of, model_digest
from hetrl_runtime.wire.values import ResumePoint
from tests.runtime.launches import a_launch

TENSORS = {"a.weight": torch.arange(40_000.0).reshape(200, 200), "b.weight": torch.ones(3)}
DATA = Value(name="train.jsonl", digest="d" * 64)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "tokenizer.json").write_text("{}")
    save(folder, TENSORS)
    return folder


def save(folder: Path, tensors, name="model.safetensors"):
    safetensors.torch.save_file(tensors, folder / name)


def with_value(name: str, index: int, value: float):
    changed = {each: tensor.clone() for each, tensor in TENSORS.items()}
    changed[name].view(-1)[index] = value
    return changed


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: save(folder, with_value("a.weight", 0, 7)), id="first value"),
        pytest.param(lambda folder: save(folder, with_value("a.weight", -1, 7)), id="last value"),
        pytest.param(
            lambda folder: save(folder, with_value("a.weight", 20_000, 7)), id="middle value"
        ),
        pytest.param(lambda folder: save(folder, with_value("b.weight", 1, 7)), id="small tensor"),
        pytest.param(lambda folder: save(folder, {"a.weight": TENSORS["a.weight"]}), id="missing"),
        pytest.param(
            lambda folder: save(
                folder, {**TENSORS, "a.weight": TENSORS["a.weight"].reshape(100, 400)}
            ),
            id="shape",
        ),
        pytest.param(lambda folder: (folder / "config.json").write_text("{}"), id="configuration"),
        pytest.param(
            lambda folder: (folder / "tokenizer.json").write_text('{"a": 1}'), id="tokenizer"
        ),
        pytest.param(
            lambda folder: (folder / "chat_template.jinja").write_text("{{ x }}"), id="template"
        ),
    ],
)
def test_model_digest_changes_with(model, change):
    before = model_digest(model)
    change(model)

    assert model_digest(model) != before


def test_model_digest_does_not_depend_on_files_of_weights(model):
    before = model_digest(model)
    (model / "model.safetensors").unlink()
    for number, (name, tensor) in enumerate(TENSORS.items()):
        save(model, {name: tensor}, f"model-{number}.safetensors")
    (model / "README.md").write_text("The same weights in two files.")

    assert model_digest(model) == before


@pytest.fixture
def launch(tmp_path, model):
    assert model.parent == tmp_path
    return a_launch(tmp_path)


def test_model_of_the_hub_is_that_of_its_files(tmp_path, launch, model, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    commit = "0" * 40
    cached = tmp_path / "hub" / "models--team--sums"
    shutil.copytree(model, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    files = ModelFiles(source="team/sums", is_path=False)

    found = identity_of(replace(launch, model=files))[Aspect.MODEL]

    assert found == Value(name="team/sums", digest=model_digest(model))


def of(launch):
    return {**identity_of(launch), Aspect.DATA: DATA}


def written(launch, identity=None, *, version=6):
    """The folder of a run, with a checkpoint of it."""
    folder = CheckpointFolder(Path(launch.checkpoint_path), keep_last=3)
    folder.prepare()
    folder.identity = of(launch) if identity is None else identity
    folder.write(
        ResumePoint(version=version),
        save_model=lambda path: save(path, TENSORS),
        optimizer={"step": torch.tensor(1.0)},
    )
    return folder


def regex(pattern: str) -> DataSpec:
    return DataSpec(prompts="p.jsonl", reward="regex", regex=RegexReward(pattern=pattern))


def boxed() -> DataSpec:
    return DataSpec(prompts="p.jsonl", math=MathReward(answer_forms=(AnswerForm.BOXED,)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": AlgorithmSpec(type=AlgorithmType.PPO)}, "recorded GRPO, now PPO"),
        ({"training": TrainingSpec(steps=6, seed=2)}, "recorded 1, now 2"),
        ({"data": DataSpec(prompts="p.jsonl", reward="exact")}, "recorded math, now exact"),
        ({"data": regex("[4-7]")}, 'recorded math, now regex {"pattern": "[4-7]"}'),
        ({"data": boxed()}, 'recorded math, now math {"answerForms": ["Boxed"]}'),
        (
            {"data": DataSpec(prompts="p.jsonl", rewards=(RewardPart(name="a", weight=0.5),))},
            'now math {"rewards": [{"name": "a", "reward": "math", "weight": 0.5}]}',
        ),
    ],
    ids=["algorithm", "seed", "reward", "reward options", "answer forms", "several rewards"],
)
def test_checkpoint_of_other_settings_is_refused(launch, changes, said):
    folder = written(launch)

    with pytest.raises(CheckpointError, match=r"step-00000006 is of another run: ") as refused:
        recorded_identity(folder, of(replace(launch, **changes)), allowed=())

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"training": TrainingSpec(steps=12, learning_rate=1e-3, checkpoint_every_steps=1)},
        {"algorithm": AlgorithmSpec(max_staleness=0, group_size=4, kl_coefficient=0.1)},
        {"data": DataSpec(prompts="moved.jsonl", max_response_tokens=64)},
    ],
    ids=["steps and rate", "constants of the algorithm", "lengths"],
)
def test_checkpoint_is_continued_with_other_rates_and_limits(launch, changes):
    folder = written(launch)

    recorded = recorded_identity(folder, of(replace(launch, **changes)), allowed=())

    assert recorded == of(launch)


def test_checkpoint_of_another_model_is_refused_unless_allowed(tmp_path, launch, model, caplog):
    folder = written(launch)
    shutil.copytree(model, tmp_path / "other")
    save(tmp_path / "other", with_value("a.weight", 0, 9.0))
    other = replace(launch, model=replace(launch.model, source=str(tmp_path / "other")))

    with pytest.raises(
        CheckpointError, match=rf"recorded {model} \(sha256 .*now {tmp_path}/other \(sha256"
    ):
        recorded_identity(folder, of(other), allowed=[Aspect.DATA])

    recorded_identity(folder, of(other), allowed=[Aspect.MODEL])
    assert "continued on purpose" in caplog.text


def test_checkpoint_of_an_earlier_release_is_continued_with_a_warning(launch, caplog):
    folder = written(launch, identity={})
    assert not (folder.newest_path() / "identity.json").exists()

    assert recorded_identity(folder, of(launch), allowed=()) == {}

    assert "does not say of which model, data and reward it is" in caplog.text
    folder.identity = of(launch)
    newer = written(launch, version=7)
    assert recorded_identity(newer, of(launch), allowed=()) == of(launch)
    assert read(newer.newest_path()).resume.version == 7


def test_checkpoint_whose_identity_was_removed_is_damaged(launch):
    folder = written(launch)
    (folder.newest_path() / "identity.json").unlink()

    with pytest.raises(CheckpointError, match=r"step-00000006 is damaged: .*identity\.json"):
        folder.newest()


def test_checkpoint_with_half_an_identity_is_damaged(launch):
    folder = written(launch)
    (folder.newest_path() / "identity.json").write_text('{"Model"')

    with pytest.raises(CheckpointError, match=r"step-00000006 is damaged"):
        recorded_identity(folder, {}, allowed=())


def test_checkpoint_folder_of_another_trainer_is_refused(tmp_path):
    first = CheckpointFolder(tmp_path, keep_last=3)
    first.take("one-run")
    (tmp_path / ".unfinished-of-first").mkdir()
    second = CheckpointFolder(tmp_path, keep_last=3)

    with pytest.raises(CheckpointError, match=rf"^{tmp_path} is in use by process \d+ of "):
        second.take("another-run")

    assert (tmp_path / ".unfinished-of-first").exists()
    first.close()
    second.take("another-run")
    second.close()


def test_checkpoint_folder_of_the_same_run_may_be_free_later(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "TAKEOVER_SECONDS", 0.1)
    first = CheckpointFolder(tmp_path, keep_last=3)
    first.take("run")

    with pytest.raises(InUseError):
        CheckpointFolder(tmp_path, keep_last=3).take("run")

    first.close()


def test_checkpoint_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(CheckpointError, match=r"cannot write checkpoints to .*file/here"):
        CheckpointFolder(tmp_path / "file" / "here", keep_last=1).take("run")


def test_checkpoint_is_not_written_into_a_lost_folder(launch, monkeypatch):
    folder = written(launch)
    folder.take("run")
    monkeypatch.setattr(type(folder._owned), "check", lose)

    with pytest.raises(CheckpointError, match="is in use by"):
        folder.write(ResumePoint(version=7), save_model=lambda _: None, optimizer={})

    assert folder.newest_path().name == "step-00000006"
    folder.close()


def lose(folder):
    raise InUseError(f"{folder.path} is in use by another process")
