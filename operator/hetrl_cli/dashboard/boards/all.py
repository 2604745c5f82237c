"""Every board, in the order in which they are shown."""

from hetrl_cli.dashboard.boards.fleet import FLEET_BOARD
from hetrl_cli.dashboard.boards.job import JOB_BOARD
from hetrl_cli.dashboard.boards.operator import OPERATOR_BOARD

BOARDS = (JOB_BOARD, FLEET_BOARD, OPERATOR_BOARD)
