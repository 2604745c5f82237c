"""Every board, in the order in which people look at them."""

from hetrl_cli.dashboard.fleet_board import FLEET_BOARD
from hetrl_cli.dashboard.job_board import JOB_BOARD
from hetrl_cli.dashboard.operator_board import OPERATOR_BOARD

BOARDS = (JOB_BOARD, FLEET_BOARD, OPERATOR_BOARD)
