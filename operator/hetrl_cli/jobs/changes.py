"""``hetrl suspend``, ``resume``, ``scale``, one field of the spec each, and ``delete``."""

import click

from hetrl_cli.cluster.connection import Connection, connect
from hetrl_cli.jobs.job_view import JobView
from hetrl_cli.jobs.options import cluster_options, poll
from hetrl_cli.say import say
from hetrl_operator.model.reasons import ConditionType

_waits = click.option(
    "--wait/--no-wait",
    "is_waiting",
    default=True,
    show_default=True,
    help="Wait until it is done.",
)
_timeout = click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    help="Longest time to wait, in seconds.",
)


def _switch(name: str, what: str, *, suspends: bool) -> click.Command:
    """Return the command that sets ``spec.suspend``; ``what`` is its help."""

    @click.command(name, help=what)
    @click.argument("job")
    @_waits
    @_timeout
    @cluster_options
    def command(
        *,
        job: str,
        is_waiting: bool,
        timeout_seconds: float,
        context: str | None,
        namespace: str | None,
    ) -> None:
        connection = connect(context=context, namespace=namespace)
        _refuse_if_ended(connection, job)
        connection.change(job, {"suspend": suspends})
        if is_waiting:
            _wait_until(connection, job, is_suspended=suspends, seconds=timeout_seconds)
        done = f"{name}d" if name.endswith("e") else f"{name}ed"
        say(f"{job} {done if is_waiting else f'is being {done}'}")

    return command


suspend = _switch(
    "suspend",
    "Stop a job's pods after a checkpoint; its GPUs are free for others.",
    suspends=True,
)
resume = _switch("resume", "Resume a suspended job from its checkpoint.", suspends=False)


@click.command("scale")
@click.argument("name")
@click.option(
    "--replicas",
    required=True,
    type=click.IntRange(min=0),
    help="Within spec.rollout's minReplicas and maxReplicas; 0: the planner decides.",
)
@cluster_options
def scale(*, name: str, replicas: int, context: str | None, namespace: str | None) -> None:
    """Set the number of rollout replicas; training continues meanwhile."""
    connection = connect(context=context, namespace=namespace)
    _refuse_if_ended(connection, name)
    connection.scale(name, replicas)
    wanted = f"{replicas} rollout replicas" if replicas else "as many rollouts as are planned"
    say(f"{name} asked for {wanted}")


@click.command("delete")
@click.argument("name")
@click.option(
    "--ignore-not-found",
    "is_missing_fine",
    is_flag=True,
    help="Exit with 0 if there is no such job.",
)
@_waits
@_timeout
@cluster_options
def delete(
    *,
    name: str,
    is_missing_fine: bool,
    is_waiting: bool,
    timeout_seconds: float,
    context: str | None,
    namespace: str | None,
) -> None:
    """Delete a job with its pods; data on its claims stays."""
    connection = connect(context=context, namespace=namespace)
    if not connection.delete(name):
        if is_missing_fine:
            return
        raise click.ClickException(f"no HetRLJob {name} in {connection.namespace}")
    for _ in poll(timeout_seconds, what=f"{name} is still being deleted") if is_waiting else ():
        if not connection.has_job(name):
            break
    say(f"{name} {'deleted' if is_waiting else 'is being deleted'}")


def _refuse_if_ended(connection: Connection, name: str) -> None:
    if JobView(connection.job(name)).has_succeeded is not None:
        raise click.ClickException(f"{name} has ended: it can be deleted, not changed")


def _wait_until(connection: Connection, name: str, *, is_suspended: bool, seconds: float) -> None:
    what = f"{name} is {'not ' if is_suspended else 'still '}suspended"
    for _ in poll(seconds, what=what):
        view = JobView(connection.job(name))
        found = view.condition(ConditionType.SUSPENDED)
        if (found is not None and found.get("status") == "True") is is_suspended:
            return
        if view.has_succeeded is not None:
            raise click.ClickException(f"{name} has ended in the meantime: {view.phase}")
