"""The board of one job: throughput, staleness, idle shares, learning and price."""

from functools import partial

from hetrl_cli.dashboard.boards.expression import (
    Age,
    Ceiling,
    Expression,
    increase,
    mean,
    quantile,
    rate,
    series,
)
from hetrl_cli.dashboard.boards.panel import (
    Board,
    Form,
    Unit,
    Variable,
    chart,
    figure,
    quantiles,
    row,
)

STALENESS = "hetrl_sample_staleness_versions"
PREDICTED_STEP = series("hetrl_plan_predicted_step_seconds").max()
STEP_SECONDS = mean("hetrl_trainer_step_seconds")
TRAINED_PER_SECOND = rate(f"{STALENESS}_count").sum()
TRAINER_IDLE = rate("hetrl_trainer_wait_seconds_sum").sum() / (
    rate("hetrl_trainer_step_seconds_sum").sum()
)


def rollouts_idle(*by: str) -> Expression:
    """Return the share of their time in which rollouts have nothing to generate."""
    idle = rate("hetrl_rollout_idle_seconds_total").sum(*by)
    return idle / (idle + rate("hetrl_rollout_busy_seconds_total").sum(*by))


def inference_idle(*by: str) -> Expression:
    """Return the share of their time in which inference workers have nothing to score."""
    idle = rate("hetrl_inference_idle_seconds_total").sum(*by)
    return idle / (idle + rate("hetrl_inference_busy_seconds_total").sum(*by))


_figure = partial(figure, width=3)

_AT_A_GLANCE = row(
    "At a glance",
    _figure("Step", "Policy versions published so far.", series("hetrl_trainer_step").max()),
    _figure(
        "Done",
        "Share of the steps that the job asks for.",
        series("hetrl_trainer_step").max() / series("hetrl_training_steps").max(),
        Unit.SHARE,
    ),
    _figure(
        "Trajectories per second", "Trained on, not only generated.", TRAINED_PER_SECOND, decimals=1
    ),
    _figure(
        "Reward", "Mean reward of the last batch.", series("hetrl_reward_mean").max(), decimals=3
    ),
    _figure(
        "Staleness (p95)",
        "Versions by which the oldest token of a trained trajectory lags.",
        Ceiling(quantile(0.95, STALENESS)),
    ),
    _figure(
        "Step over plan",
        "Time of a step over what the plan expects of it: 1 is as planned, 2 twice as slow.",
        STEP_SECONDS / PREDICTED_STEP,
    ),
    _figure(
        "Price",
        "US dollars per hour of the GPUs that the job holds.",
        series("hetrl_cost_dollars_per_hour").max(),
        Unit.DOLLARS,
        decimals=2,
    ),
    _figure(
        "Gap",
        "Distance of the plan from the best bound known; 0 is a proven optimum.",
        series("hetrl_plan_gap_ratio").max(),
        Unit.SHARE,
        decimals=1,
    ),
)

_THROUGHPUT = row(
    "Throughput",
    chart(
        "Trajectories",
        "Per second: trained on, and delivered by what became of them.",
        {
            "trained on": TRAINED_PER_SECOND,
            "{{outcome}}": rate("hetrl_trajectories_total").sum("outcome"),
        },
    ),
    chart(
        "Tokens by GPU kind",
        "Response tokens per second: generated, by what sampled them, and trained on.",
        {"{{pool}}": rate("hetrl_tokens_generated_total").sum("pool")},
        limits={"trained on": rate("hetrl_trainer_tokens_total").sum()},
        form=Form.STACK,
    ),
    chart(
        "Step time",
        "A measured step, the trainer's wait within it, and the plan's prediction.",
        {"measured": STEP_SECONDS, "of it, waiting": mean("hetrl_trainer_wait_seconds")},
        limits={"predicted": PREDICTED_STEP},
        unit=Unit.SECONDS,
    ),
)

_STALENESS = row(
    "Staleness",
    chart(
        "Staleness of trained trajectories",
        "How many trajectories of which staleness were trained on, by time.",
        {"{{le}}": increase(f"{STALENESS}_bucket").sum("le")},
        form=Form.HEATMAP,
        width=12,
    ),
    chart(
        "Staleness and its bound",
        "Of trajectories trained on, in versions. None is ever beyond maxStaleness.",
        {
            "mean": mean(STALENESS),
            "median": Ceiling(quantile(0.5, STALENESS)),
            "95th percentile": Ceiling(quantile(0.95, STALENESS)),
        },
        limits={"bound": series("hetrl_max_staleness_versions").max()},
        width=12,
    ),
)

_WAITING = row(
    "What waits for what",
    chart(
        "Idle",
        "Share of time: the trainer without a batch, rollouts with nothing to generate.",
        {"trainer": TRAINER_IDLE, "rollouts on {{pool}}": rollouts_idle("pool")},
        unit=Unit.SHARE,
        top=1,
    ),
    chart(
        "Buffer",
        "Trajectories that wait for training, are leased, and are being generated.",
        {
            "buffered": series("hetrl_buffer_trajectories").sum(),
            "leased": series("hetrl_leased_trajectories").sum(),
            "being generated": series("hetrl_running_trajectories").sum(),
        },
    ),
    chart(
        "Time of a trajectory",
        "From its start to its end: median and 95th percentile. A batch waits for its longest.",
        quantiles("hetrl_rollout_generation_seconds"),
        unit=Unit.SECONDS,
    ),
)

_INFERENCE = row(
    "Inference workers",
    chart(
        "Inference tokens",
        "Tokens per second that frozen models score, by GPU kind. Empty where the "
        "plan has no inference workers.",
        {"{{pool}}": rate("hetrl_inference_tokens_total").sum("pool")},
        form=Form.STACK,
    ),
    chart(
        "Time of an answer",
        "From a rollout's request to the response: median and 95th percentile.",
        quantiles("hetrl_inference_seconds"),
        unit=Unit.SECONDS,
    ),
    chart(
        "Questions and idle time",
        "Responses that wait for their turn, and the share of time with nothing to score.",
        {
            "waiting": series("hetrl_inference_waiting_trajectories").sum(),
            "idle share": inference_idle(),
        },
    ),
)

_WEIGHTS = row(
    "Weights",
    chart(
        "Weight sync by link",
        "95th percentile of the time to fetch and load a version, by link and kind.",
        {"{{link}} region, {{kind}}": quantile(0.95, "hetrl_weight_sync_seconds", "link", "kind")},
        unit=Unit.SECONDS,
    ),
    chart(
        "Weights loaded",
        "Bytes per second over all workers, counted whole; patches carry fewer.",
        {"{{link}} region, {{kind}}": rate("hetrl_weight_sync_bytes_total").sum("link", "kind")},
        unit=Unit.BYTES,
    ),
    chart(
        "Versions",
        "The version being trained, and the oldest and newest that a worker samples with.",
        {
            "being trained": series("hetrl_policy_version").max(),
            "newest worker": series("hetrl_worker_policy_version").max(),
            "oldest worker": series("hetrl_worker_policy_version").min(),
        },
    ),
)

_LEARNING = row(
    "Learning",
    chart(
        "Reward over time",
        "Mean reward of each batch; with several rewards, the mean of each one before weights.",
        {
            "reward": series("hetrl_reward_mean").max(),
            "{{part}}": series("hetrl_reward_part_mean").max("part"),
        },
    ),
    chart(
        "Entropy and divergence",
        "Nats per token: the policy's entropy, how far samplers were behind, how far it is "
        "from the reference, and how far engines compute the same weights otherwise.",
        {
            "entropy": series("hetrl_trainer_entropy_nats").max(),
            "KL to the samplers": series("hetrl_trainer_behaviour_kl_nats").max(),
            "KL to the reference": series("hetrl_trainer_reference_kl_nats").max(),
            "engine from trainer": series("hetrl_trainer_engine_difference_nats").max(),
        },
    ),
    chart(
        "Loss and gradient",
        "Loss of the last step, and the gradient's norm before it was clipped.",
        {
            "loss": series("hetrl_trainer_loss").max(),
            "gradient norm": series("hetrl_trainer_gradient_norm").max(),
        },
    ),
    chart(
        "Off-policy correction",
        "Mean importance weight of the samplers' policy, and the share of tokens clipped.",
        {
            "weight": series("hetrl_trainer_behaviour_weight").max(),
            "clipped share": series("hetrl_trainer_clipped_ratio").max(),
        },
    ),
    chart(
        "Learning rate",
        "Of the last step, warm-up and decay included.",
        {"rate": series("hetrl_trainer_learning_rate").max()},
    ),
    chart(
        "Prompts left out",
        "Prompts that are not used, by the reason why they cannot be, and trajectories in "
        "quarantine, with which the trainer ended twice.",
        {
            "{{reason}}": series("hetrl_prompts_left_out").max("reason"),
            "quarantined": series("hetrl_trajectories_quarantined_total").max(),
        },
    ),
    chart(
        "Groups without a signal",
        "Per second: groups left out because their rewards were all equal, responses that "
        "no reward was given, trajectories that new weights reached before their end, and "
        "optimizer steps that were skipped because a number was not finite.",
        {
            "groups left out": rate("hetrl_groups_left_out_total").sum(),
            "groups with too few rewards": rate("hetrl_groups_unjudged_total").sum(),
            "rewards not judged": rate("hetrl_rewards_unjudged_total").sum(),
            "steps skipped": rate("hetrl_trainer_skipped_steps_total").sum(),
            "trajectories interrupted": rate("hetrl_rollout_interrupted_trajectories_total").sum(),
        },
    ),
)

_PROCESSES = row(
    "Processes",
    chart(
        "Pods",
        "Pods that should be, and those that are ready.",
        {"{{role}}, ready": series("hetrl_job_pods", state="ready").sum("role")},
        limits={"{{role}}, wanted": series("hetrl_job_pods", state="wanted").sum("role")},
    ),
    chart(
        "Checkpoints",
        "Mean time to write a checkpoint beside training, and how long training was "
        "held up for it.",
        {
            "written": mean("hetrl_trainer_checkpoint_seconds"),
            "held up": mean("hetrl_trainer_checkpoint_stall_seconds"),
        },
        unit=Unit.SECONDS,
    ),
    chart(
        "Since the last step",
        "Seconds since a step was committed; a value that keeps rising means a stall.",
        {"last step": Age(series("hetrl_trainer_last_step_timestamp_seconds")).min()},
        unit=Unit.SECONDS,
    ),
    chart(
        "Processor time",
        "Processors kept busy by role.",
        {"{{role}}": rate("process_cpu_seconds_total").sum("role")},
    ),
    chart(
        "Memory",
        "Resident memory by role, all pods together.",
        {"{{role}}": series("process_resident_memory_bytes").sum("role")},
        form=Form.STACK,
        unit=Unit.BYTES,
    ),
    chart(
        "Restarts",
        "Of trainers and of the coordinator after failures, since the job was made.",
        {"restarts": series("hetrl_job_restarts").max()},
    ),
)

JOB_BOARD = Board(
    name="job",
    title="HetRL / Job",
    says="One job: throughput, staleness, idle shares, learning, and the plan's prediction.",
    variables=(
        Variable(name="namespace", label="Namespace", metric="hetrl_policy_version"),
        Variable(
            name="hetrljob", label="Job", metric="hetrl_policy_version", within=("namespace",)
        ),
    ),
    rows=(
        _AT_A_GLANCE,
        _THROUGHPUT,
        _STALENESS,
        _WAITING,
        _INFERENCE,
        _WEIGHTS,
        _LEARNING,
        _PROCESSES,
    ),
)
