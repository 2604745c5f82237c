"""The series of each role, as dashboards and alerts know them."""

import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.metrics.server import MetricsServer
from hetrl_runtime.metrics.trainer import TrainerMetrics
from tests.runtime.launches import a_launch


@pytest.mark.parametrize(
    ("series", "names"),
    [
        (
            CoordinatorMetrics,
            {
                "hetrl_sample_staleness_versions": "histogram",
                "hetrl_max_staleness_versions": "gauge",
                "hetrl_trajectories": "counter",
                "hetrl_groups_left_out": "counter",
                "hetrl_groups_unjudged": "counter",
                "hetrl_prompts_left_out": "gauge",
                "hetrl_trajectories_quarantined": "counter",
                "hetrl_buffer_trajectories": "gauge",
                "hetrl_leased_trajectories": "gauge",
                "hetrl_policy_version": "gauge",
                "hetrl_training_steps": "gauge",
                "hetrl_reward_mean": "gauge",
                "hetrl_reward_part_mean": "gauge",
                "hetrl_plan_predicted_step_seconds": "gauge",
            },
        ),
        (
            TrainerMetrics,
            {
                "hetrl_trainer_step": "gauge",
                "hetrl_trainer_step_seconds": "histogram",
                "hetrl_trainer_wait_seconds": "histogram",
                "hetrl_trainer_checkpoint_seconds": "histogram",
                "hetrl_trainer_checkpoint_stall_seconds": "histogram",
                "hetrl_trainer_tokens": "counter",
                "hetrl_trainer_last_step_timestamp_seconds": "gauge",
                "hetrl_trainer_loss": "gauge",
                "hetrl_trainer_entropy_nats": "gauge",
                "hetrl_trainer_gradient_norm": "gauge",
                "hetrl_trainer_clipped_ratio": "gauge",
                "hetrl_trainer_behaviour_weight": "gauge",
                "hetrl_trainer_behaviour_kl_nats": "gauge",
                "hetrl_trainer_reference_kl_nats": "gauge",
                "hetrl_trainer_engine_difference_nats": "gauge",
                "hetrl_trainer_skipped_steps": "counter",
                "hetrl_trainer_learning_rate": "gauge",
            },
        ),
        (
            RolloutMetrics,
            {
                "hetrl_tokens_generated": "counter",
                "hetrl_weight_sync_seconds": "histogram",
                "hetrl_worker_policy_version": "gauge",
                "hetrl_running_trajectories": "gauge",
                "hetrl_rollout_idle_seconds": "counter",
                "hetrl_rollout_busy_seconds": "counter",
                "hetrl_rollout_generation_seconds": "histogram",
                "hetrl_rollout_interrupted_trajectories": "counter",
                "hetrl_rewards_unjudged": "counter",
                "hetrl_weight_sync_bytes": "counter",
            },
        ),
    ],
    ids=["coordinator", "trainer", "rollout"],
)
def test_roles_have_their_series(
    series: Callable[[CollectorRegistry], object], names: dict[str, str]
) -> None:
    registry = CollectorRegistry()
    series(registry)

    assert {each.name: each.type for each in registry.collect()} == names


def test_figures_of_a_step_are_shown_and_missing_ones_stay() -> None:
    registry = CollectorRegistry()
    metrics = TrainerMetrics(registry)
    metrics.show({"loss": 0.5, "behaviour_kl": 0.25, "critic/loss": 9.0})
    metrics.show({})

    assert registry.get_sample_value("hetrl_trainer_loss") == 0.5
    assert registry.get_sample_value("hetrl_trainer_behaviour_kl_nats") == 0.25


def test_staleness_has_the_buckets_that_panels_are_drawn_by() -> None:
    registry = CollectorRegistry()
    CoordinatorMetrics(registry).staleness.observe(2)

    found = {
        sample.labels["le"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "hetrl_sample_staleness_versions_bucket"
    }
    edges = ("0.0", "1.0", "2.0", "3.0", "4.0", "6.0", "8.0", "12.0", "16.0", "+Inf")
    assert found == {edge: float(edge not in {"0.0", "1.0"}) for edge in edges}


def test_registry_is_served_where_the_contract_says(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    TrainerMetrics(registry).step.set(7)

    with MetricsServer(registry, a_launch(tmp_path)) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(url) as reply:
            assert "hetrl_trainer_step 7.0" in reply.read().decode()
