"""From a plan to processes that can be started: the run's folder is filled with all they need."""

import os
from pathlib import Path

from pydantic import TypeAdapter

from hetrl_cli.run.metrics.scrape import targets, write_targets
from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.setup.certificates import write_certificates
from hetrl_cli.run.setup.commands import commands
from hetrl_cli.run.setup.contracts import NUM_PORTS, pods
from hetrl_cli.run.setup.folder import RunFolder, begin, newest_folder, next_folder, resume
from hetrl_cli.run.setup.ports import free_ports
from hetrl_cli.run.setup.prepare import Prepared
from hetrl_core.launch import to_json
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import pod_sets

RUNS = Path("runs")
"""Where folders of runs go when the user names none."""

_GPU_DEVICES = Path("/proc/driver/nvidia/gpus")


def choose_folder(job: str, *, out: Path | None, resumed: bool) -> RunFolder:
    """Return the folder that the user means.

    Raises:
        ValueError: there is no run of the job that could be resumed.
    """
    if out is not None:
        return RunFolder(path=out.resolve())
    if not resumed:
        return next_folder(RUNS.resolve(), job)
    newest = newest_folder(RUNS.resolve(), job)
    if newest is None:
        raise ValueError(f"{RUNS} holds no run of {job} that could be resumed")
    return newest


def fill(
    folder: RunFolder, prepared: Prepared, plan: Plan, *, resumed: bool, encrypted: bool
) -> tuple[Command, ...]:
    """Write contracts, certificates and the plan into a folder; return what to start.

    Raises:
        ValueError: the folder is another run's.
        OSError: it cannot be written, or no port is free.
    """
    spec = prepared.spec
    claim = resume if resumed else begin
    identity = claim(folder, namespace=spec.namespace, name=spec.name)
    folder.job_file.write_text(prepared.text)
    folder.plan_file.write_bytes(TypeAdapter(Plan).dump_json(plan, indent=1))
    if encrypted:
        write_certificates(folder.tls, job=spec.name)
    num_programs = sum(each.num_pods * len(each.programs) for each in pod_sets(plan))
    ports = free_ports(NUM_PORTS + num_programs + 1)
    started = pods(
        plan,
        spec,
        identity=identity,
        folder=folder,
        ports=ports[:-1],
        startup_deadline_seconds=prepared.document.spec.startup_deadline_seconds,
        encrypted=encrypted,
    )
    write_targets(folder, targets(started, identity, own_port=ports[-1]))
    for pod in started:
        folder.state(pod.name).mkdir(parents=True, exist_ok=True)
        (folder.contracts / f"{pod.name}.json").write_text(to_json(pod.launch))
    return commands(started, folder, environment=os.environ, num_devices=_num_devices())


def _num_devices() -> int:
    return len(list(_GPU_DEVICES.iterdir())) if _GPU_DEVICES.is_dir() else 0
