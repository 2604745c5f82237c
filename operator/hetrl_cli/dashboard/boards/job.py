"""The board of one job: throughput, staleness, idle shares, learning and price."""

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
from hetrl_cli.dashboard.boards.panel import Board, Curve, Form, Panel, Row, Unit, Variable

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


def _figure(
    title: str,
    says: str,
    expression: Expression,
    unit: Unit = Unit.COUNT,
    decimals: int | None = None,
) -> Panel:
    return Panel(
        title=title,
        says=says,
        form=Form.FIGURE,
        unit=unit,
        decimals=decimals,
        width=3,
        curves=(Curve(expression=expression),),
    )


_AT_A_GLANCE = Row(
    title="At a glance",
    panels=(
        _figure("Step", "Policy versions published so far.", series("hetrl_trainer_step").max()),
        _figure(
            "Done",
            "Share of the steps that the job asks for.",
            series("hetrl_trainer_step").max() / series("hetrl_training_steps").max(),
            Unit.SHARE,
        ),
        _figure(
            "Trajectories per second",
            "Trained on, not only generated.",
            TRAINED_PER_SECOND,
            decimals=1,
        ),
        _figure(
            "Reward",
            "Mean reward of the last batch.",
            series("hetrl_reward_mean").max(),
            decimals=3,
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
    ),
)

_THROUGHPUT = Row(
    title="Throughput",
    panels=(
        Panel(
            title="Trajectories",
            says="Per second: trained on, and delivered by what became of them.",
            curves=(
                Curve(expression=TRAINED_PER_SECOND, legend="trained on"),
                Curve(
                    expression=rate("hetrl_trajectories_total").sum("outcome"), legend="{{outcome}}"
                ),
            ),
        ),
        Panel(
            title="Tokens by GPU kind",
            says="Response tokens per second: generated, by what sampled them, and trained on.",
            form=Form.STACK,
            curves=(
                Curve(
                    expression=rate("hetrl_tokens_generated_total").sum("pool"), legend="{{pool}}"
                ),
                Curve(
                    expression=rate("hetrl_trainer_tokens_total").sum(),
                    legend="trained on",
                    is_limit=True,
                ),
            ),
        ),
        Panel(
            title="Step time",
            says="A measured step, the trainer's wait within it, and the plan's prediction.",
            unit=Unit.SECONDS,
            curves=(
                Curve(expression=STEP_SECONDS, legend="measured"),
                Curve(expression=mean("hetrl_trainer_wait_seconds"), legend="of it, waiting"),
                Curve(expression=PREDICTED_STEP, legend="predicted", is_limit=True),
            ),
        ),
    ),
)

_STALENESS = Row(
    title="Staleness",
    panels=(
        Panel(
            title="Staleness of trained trajectories",
            says="How many trajectories of which staleness were trained on, by time.",
            form=Form.HEATMAP,
            width=12,
            curves=(Curve(expression=increase(f"{STALENESS}_bucket").sum("le"), legend="{{le}}"),),
        ),
        Panel(
            title="Staleness and its bound",
            says="Of trajectories trained on, in versions. None is ever beyond maxStaleness.",
            width=12,
            curves=(
                Curve(expression=mean(STALENESS), legend="mean"),
                Curve(expression=Ceiling(quantile(0.5, STALENESS)), legend="median"),
                Curve(expression=Ceiling(quantile(0.95, STALENESS)), legend="95th percentile"),
                Curve(
                    expression=series("hetrl_max_staleness_versions").max(),
                    legend="bound",
                    is_limit=True,
                ),
            ),
        ),
    ),
)

_WAITING = Row(
    title="What waits for what",
    panels=(
        Panel(
            title="Idle",
            says="Share of time: the trainer without a batch, rollouts with nothing to generate.",
            unit=Unit.SHARE,
            top=1,
            curves=(
                Curve(expression=TRAINER_IDLE, legend="trainer"),
                Curve(expression=rollouts_idle("pool"), legend="rollouts on {{pool}}"),
            ),
        ),
        Panel(
            title="Buffer",
            says="Trajectories that wait for training, are leased, and are being generated.",
            curves=(
                Curve(expression=series("hetrl_buffer_trajectories").sum(), legend="buffered"),
                Curve(expression=series("hetrl_leased_trajectories").sum(), legend="leased"),
                Curve(
                    expression=series("hetrl_running_trajectories").sum(), legend="being generated"
                ),
            ),
        ),
        Panel(
            title="Time of a trajectory",
            says="From its start to its end: median and 95th percentile. A batch waits for its "
            "longest.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=quantile(0.5, "hetrl_rollout_generation_seconds"), legend="median"
                ),
                Curve(
                    expression=quantile(0.95, "hetrl_rollout_generation_seconds"),
                    legend="95th percentile",
                ),
            ),
        ),
    ),
)

_INFERENCE = Row(
    title="Inference workers",
    panels=(
        Panel(
            title="Inference tokens",
            says="Tokens per second that frozen models score, by GPU kind. Empty where the "
            "plan has no inference workers.",
            form=Form.STACK,
            curves=(
                Curve(
                    expression=rate("hetrl_inference_tokens_total").sum("pool"), legend="{{pool}}"
                ),
            ),
        ),
        Panel(
            title="Time of an answer",
            says="From a rollout's request to the response: median and 95th percentile.",
            unit=Unit.SECONDS,
            curves=(
                Curve(expression=quantile(0.5, "hetrl_inference_seconds"), legend="median"),
                Curve(
                    expression=quantile(0.95, "hetrl_inference_seconds"), legend="95th percentile"
                ),
            ),
        ),
        Panel(
            title="Questions and idle time",
            says="Responses that wait for their turn, and the share of time with nothing to score.",
            curves=(
                Curve(
                    expression=series("hetrl_inference_waiting_trajectories").sum(),
                    legend="waiting",
                ),
                Curve(expression=inference_idle(), legend="idle share"),
            ),
        ),
    ),
)

_WEIGHTS = Row(
    title="Weights",
    panels=(
        Panel(
            title="Weight sync by link",
            says="95th percentile of the time to fetch and load a version, by link and kind.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=quantile(0.95, "hetrl_weight_sync_seconds", "link", "kind"),
                    legend="{{link}} region, {{kind}}",
                ),
            ),
        ),
        Panel(
            title="Weights loaded",
            says="Bytes per second over all workers, counted whole; patches carry fewer.",
            unit=Unit.BYTES,
            curves=(
                Curve(
                    expression=rate("hetrl_weight_sync_bytes_total").sum("link", "kind"),
                    legend="{{link}} region, {{kind}}",
                ),
            ),
        ),
        Panel(
            title="Versions",
            says="The version being trained, and the oldest and newest that a worker samples with.",
            curves=(
                Curve(expression=series("hetrl_policy_version").max(), legend="being trained"),
                Curve(
                    expression=series("hetrl_worker_policy_version").max(), legend="newest worker"
                ),
                Curve(
                    expression=series("hetrl_worker_policy_version").min(), legend="oldest worker"
                ),
            ),
        ),
    ),
)

_LEARNING = Row(
    title="Learning",
    panels=(
        Panel(
            title="Reward over time",
            says="Mean reward of each batch.",
            curves=(Curve(expression=series("hetrl_reward_mean").max(), legend="reward"),),
        ),
        Panel(
            title="Entropy and divergence",
            says="Nats per token: the policy's entropy, how far samplers were behind, and how far "
            "it is from the reference.",
            curves=(
                Curve(expression=series("hetrl_trainer_entropy_nats").max(), legend="entropy"),
                Curve(
                    expression=series("hetrl_trainer_behaviour_kl_nats").max(),
                    legend="KL to the samplers",
                ),
                Curve(
                    expression=series("hetrl_trainer_reference_kl_nats").max(),
                    legend="KL to the reference",
                ),
            ),
        ),
        Panel(
            title="Loss and gradient",
            says="Loss of the last step, and the gradient's norm before it was clipped.",
            curves=(
                Curve(expression=series("hetrl_trainer_loss").max(), legend="loss"),
                Curve(
                    expression=series("hetrl_trainer_gradient_norm").max(), legend="gradient norm"
                ),
            ),
        ),
        Panel(
            title="Off-policy correction",
            says="Mean importance weight of the samplers' policy, and the share of tokens clipped.",
            curves=(
                Curve(expression=series("hetrl_trainer_behaviour_weight").max(), legend="weight"),
                Curve(
                    expression=series("hetrl_trainer_clipped_ratio").max(), legend="clipped share"
                ),
            ),
        ),
        Panel(
            title="Learning rate",
            says="Of the last step, warm-up and decay included.",
            curves=(Curve(expression=series("hetrl_trainer_learning_rate").max(), legend="rate"),),
        ),
        Panel(
            title="Groups without a signal",
            says="Per second: groups left out because their rewards were all equal, and "
            "trajectories that new weights reached before their end.",
            curves=(
                Curve(
                    expression=rate("hetrl_groups_left_out_total").sum(), legend="groups left out"
                ),
                Curve(
                    expression=rate("hetrl_rollout_interrupted_trajectories_total").sum(),
                    legend="trajectories interrupted",
                ),
            ),
        ),
    ),
)

_PROCESSES = Row(
    title="Processes",
    panels=(
        Panel(
            title="Pods",
            says="Pods that should be, and those that are ready.",
            curves=(
                Curve(
                    expression=series("hetrl_job_pods", state="ready").sum("role"),
                    legend="{{role}}, ready",
                ),
                Curve(
                    expression=series("hetrl_job_pods", state="wanted").sum("role"),
                    legend="{{role}}, wanted",
                    is_limit=True,
                ),
            ),
        ),
        Panel(
            title="Checkpoints",
            says="Mean time to write a checkpoint beside training, and how long training was "
            "held up for it.",
            unit=Unit.SECONDS,
            curves=(
                Curve(expression=mean("hetrl_trainer_checkpoint_seconds"), legend="written"),
                Curve(expression=mean("hetrl_trainer_checkpoint_stall_seconds"), legend="held up"),
            ),
        ),
        Panel(
            title="Since the last step",
            says="Seconds since a step was committed; a value that keeps rising means a stall.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=Age(series("hetrl_trainer_last_step_timestamp_seconds")).min(),
                    legend="last step",
                ),
            ),
        ),
        Panel(
            title="Processor time",
            says="Processors kept busy by role.",
            curves=(
                Curve(expression=rate("process_cpu_seconds_total").sum("role"), legend="{{role}}"),
            ),
        ),
        Panel(
            title="Memory",
            says="Resident memory by role, all pods together.",
            unit=Unit.BYTES,
            form=Form.STACK,
            curves=(
                Curve(
                    expression=series("process_resident_memory_bytes").sum("role"),
                    legend="{{role}}",
                ),
            ),
        ),
        Panel(
            title="Restarts",
            says="Of trainers and of the coordinator after failures, since the job was made.",
            curves=(Curve(expression=series("hetrl_job_restarts").max(), legend="restarts"),),
        ),
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
