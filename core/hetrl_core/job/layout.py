"""The layouts of other projects' data sets: which fields hold question and answer."""

from enum import StrEnum
from typing import NamedTuple


class Layout(StrEnum):
    """The projects whose data sets have fields of their own."""

    VERL = "verl"
    DAPO = "dapo"
    OPENR1 = "openr1"
    TRL = "trl"
    OPENRLHF = "openrlhf"


class LayoutFields(NamedTuple):
    """Names of fields; ``a.b`` is field ``b`` inside field ``a``."""

    question: str
    answer: str


LAYOUTS = {
    Layout.VERL: LayoutFields("prompt", "reward_model.ground_truth"),
    Layout.DAPO: LayoutFields("prompt", "reward_model.ground_truth"),
    Layout.OPENR1: LayoutFields("problem", "answer"),
    Layout.TRL: LayoutFields("prompt", "solution"),
    Layout.OPENRLHF: LayoutFields("prompt", "label"),
}
