"""Colours and letters of tasks and flows.

After Okabe and Ito, "Color Universal Design" (2008): distinguishable with any colour
blindness. Each task has a letter too, for prints in black.
"""

from dataclasses import dataclass

from hetrl_cli.picture.content.movement import FlowKind
from hetrl_core.task import Task

INK, QUIET, LINE, PAPER = "#1f2328", "#5a636d", "#c4cad1", "#ffffff"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a task is drawn."""

    letter: str
    words: str
    fill: str
    odd_fill: str
    """Of every other replica."""

    text: str


LOOKS = {
    Task.ACTOR_TRAINING: Look(
        letter="T", words="actor training", fill="#0072b2", odd_fill="#005686", text=PAPER
    ),
    Task.ACTOR_GENERATION: Look(
        letter="G", words="actor generation", fill="#f0b23e", odd_fill="#dd9a14", text=INK
    ),
    Task.REFERENCE_INFERENCE: Look(
        letter="F", words="reference", fill="#8ecbef", odd_fill="#63b4e4", text=INK
    ),
    Task.REWARD_INFERENCE: Look(
        letter="W", words="reward", fill="#5cc4a0", odd_fill="#36ad84", text=INK
    ),
    Task.CRITIC_INFERENCE: Look(
        letter="V", words="critic (values)", fill="#dfa6c6", odd_fill="#cc79a7", text=INK
    ),
    Task.CRITIC_TRAINING: Look(
        letter="C", words="critic training", fill="#d55e00", odd_fill="#a94b00", text=PAPER
    ),
}

FLOW_COLOURS = {
    FlowKind.TRAJECTORIES: "#b97a00",
    FlowKind.WEIGHTS: "#007a5a",
    FlowKind.PIPELINE: "#454d56",
    FlowKind.GRADIENTS: "#a8517f",
}
