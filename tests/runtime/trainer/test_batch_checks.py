import pytest

from hetrl_core.staleness import StalenessBound
from hetrl_runtime.trainer.batch_checks import SignalWatch, check, shuffled
from tests.runtime.trainer.trajectories import a_trajectory

BOUND = StalenessBound(max_staleness=2)


@pytest.mark.parametrize(
    ("versions", "is_admitted"),
    [
        pytest.param([5, 5], True, id="fresh"),
        pytest.param([3, 5], True, id="its oldest token at the bound"),
        pytest.param([2, 5], False, id="its oldest token one too old, though it ended fresh"),
        pytest.param([], False, id="nothing was sampled"),
    ],
)
def test_strict_check_uses_the_oldest_token(versions, is_admitted):
    trajectory = a_trajectory(versions=versions)

    checked = check([trajectory], bound=BOUND, version=5)

    assert bool(checked.admitted) is is_admitted
    assert bool(checked.discarded) is not is_admitted


def test_token_from_the_future_is_an_error():
    with pytest.raises(ValueError, match="sampled by version 6, after version 5"):
        check([a_trajectory(versions=[6])], bound=BOUND, version=5)


def test_shuffling_permutes_the_same_rewards():
    rewards = [float(each) for each in range(50)]

    dealt = shuffled(rewards, seed=1, version=3)

    assert sorted(dealt) == rewards != dealt
    assert dealt == shuffled(rewards, seed=1, version=3) != shuffled(rewards, seed=1, version=4)


def test_run_whose_rewards_never_vary_ends_with_a_reason():
    watch = SignalWatch(max_steps=3)

    endings = [watch.see(groups=[1, 1, 2], rewards=[0, 0, 0]) for _ in range(3)]

    assert endings[:2] == [None, None]
    assert endings[2].reason == "NoLearningSignal"
    assert "every reward of the last 3 steps was 0" in endings[2].message


def test_rewards_that_differ_only_between_groups_teach_nothing():
    watch = SignalWatch(max_steps=1)

    ending = watch.see(groups=[1, 1, 2, 2], rewards=[0, 0, 1, 1])

    assert "rewards did not vary within any group for 1 steps" in ending.message


def test_step_with_a_signal_restarts_the_count():
    watch = SignalWatch(max_steps=2)

    rewards = [[0, 0], [0, 1], [0, 0]]

    assert [watch.see(groups=[1, 1], rewards=each) for each in rewards] == [None] * 3
