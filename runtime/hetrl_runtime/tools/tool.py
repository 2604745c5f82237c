"""The tool type, and the lookup of tools by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetrl_core.job.spec import Tool
from hetrl_runtime.tools.calculator import calculate


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A tool of one argument, as a chat template describes it to a model."""

    name: Tool
    description: str
    argument: str
    """Its argument's name."""

    argument_description: str
    run: Callable[[str], str]
    """Raises ``ValueError`` for an argument that has no result."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that chat templates take in ``tools``."""
        return {
            "type": "function",
            "function": {
                "name": str(self.name),
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {
                        self.argument: {
                            "type": "string",
                            "description": self.argument_description,
                        }
                    },
                    "required": [self.argument],
                },
            },
        }


FUNCTIONS: dict[Tool, Function] = {
    Tool.CALCULATOR: Function(
        name=Tool.CALCULATOR,
        description="Computes an arithmetic expression exactly.",
        argument="expression",
        argument_description="Numbers, + - * / // % ** and parentheses, such as (3 + 4) * 12.5",
        run=calculate,
    )
}
"""Every tool that a job may name."""
