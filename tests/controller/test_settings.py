"""The environment becomes settings, or an error that names the variable."""

from pathlib import Path

import pytest

from hetrl_core.task import Role
from hetrl_operator.settings import from_environment

IMAGES = {"HETRL_IMAGE_TRAINER": "trainer:1", "HETRL_IMAGE_ROLLOUT": "rollout:1"}


def test_coordinator_runs_in_the_trainers_image_by_default() -> None:
    assert from_environment(IMAGES).pods.images[Role.COORDINATOR] == "trainer:1"
    settings = from_environment({**IMAGES, "HETRL_IMAGE_COORDINATOR": "coordinator:1"})
    assert settings.pods.images[Role.COORDINATOR] == "coordinator:1"


def test_inference_workers_run_in_the_trainers_image() -> None:
    assert from_environment(IMAGES).pods.images[Role.INFERENCE] == "trainer:1"


def test_pods_are_given_the_authority_of_our_endpoint(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")

    settings = from_environment(
        {**IMAGES, "HETRL_TLS_DIRECTORY": str(tmp_path), "HETRL_PROGRESS_URL": "https://here:1/"}
    )

    assert settings.pods.progress_url == "https://here:1"
    assert settings.pods.progress_authority == "PEM"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"HETRL_IMAGE_TRAINER": ""}, "HETRL_IMAGE_TRAINER", id="no-image"),
        pytest.param({"HETRL_WORKERS": "many"}, "HETRL_WORKERS .* 'many'", id="not-a-number"),
        pytest.param({"HETRL_PROGRESS_URL": "http://x"}, "HETRL_PROGRESS_URL", id="not-https"),
    ],
)
def test_wrong_variable_is_named(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_environment({**IMAGES, **changes})


def test_namespaces_are_a_list() -> None:
    assert from_environment(IMAGES).namespaces == ()
    some = from_environment({**IMAGES, "HETRL_WATCH_NAMESPACES": "a, b"})
    assert some.namespaces == ("a", "b")
