"""Places of the plan's machines in the picture: card and region."""

from collections.abc import Sequence

from hetrl_cli.picture.content.cards import Card


class Places:
    """The cards of machines, by their names."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self._numbers = {name: at for at, card in enumerate(cards) for name in card.machines}
        self._cards = cards

    def number(self, machine: str) -> int:
        """Return the number of a machine's card."""
        return self._numbers[machine]

    def card(self, machine: str) -> Card:
        """Return a machine's card."""
        return self._cards[self._numbers[machine]]

    def region(self, machine: str) -> str:
        """Return where a machine stands."""
        return self.card(machine).region
