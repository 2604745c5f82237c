"""Idle and busy time, and the series that show them."""

from prometheus_client import CollectorRegistry

from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.process.activity import Activity
from hetrl_runtime.wire.values import ProcessStatus


def test_time_counts_as_what_held_before_each_change() -> None:
    activity = Activity(now=10.0)

    activity.observe(is_busy=True, now=12.0)
    activity.observe(is_busy=True, now=15.0)
    activity.observe(is_busy=False, now=16.0)
    activity.observe(is_busy=False, now=16.5)

    assert activity.busy_seconds == 4.0
    assert activity.idle_seconds == 2.5


def test_series_follow_successive_statuses() -> None:
    registry = CollectorRegistry()
    metrics = RolloutMetrics(registry)

    metrics.show(ProcessStatus(version=1, running=3, generated_tokens=100, busy_seconds=2.0))
    metrics.show(ProcessStatus(version=2, running=1, generated_tokens=150, busy_seconds=2.5))

    assert registry.get_sample_value("hetrl_tokens_generated_total") == 150
    assert registry.get_sample_value("hetrl_rollout_busy_seconds_total") == 2.5
    assert registry.get_sample_value("hetrl_rollout_idle_seconds_total") == 0
    assert registry.get_sample_value("hetrl_worker_policy_version") == 2
    assert registry.get_sample_value("hetrl_running_trajectories") == 1
