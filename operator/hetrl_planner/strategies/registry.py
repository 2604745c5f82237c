"""The strategies by their names in the API."""

from collections.abc import Mapping

from hetrl_core.job.spec import Strategy
from hetrl_planner.strategies.areal_hex import ArealHex
from hetrl_planner.strategies.auto import Auto
from hetrl_planner.strategies.hetrl import Hetrl
from hetrl_planner.strategies.homogeneous import Homogeneous
from hetrl_planner.strategies.ilp import Ilp
from hetrl_planner.strategies.strategy import SearchStrategy

STRATEGIES: Mapping[Strategy, SearchStrategy] = {
    Strategy.AUTO: Auto(),
    Strategy.AREAL_HEX: ArealHex(),
    Strategy.HETRL: Hetrl(),
    Strategy.ILP: Ilp(),
    Strategy.HOMOGENEOUS: Homogeneous(),
}
