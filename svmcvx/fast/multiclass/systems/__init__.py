"""What a step costs: Newton systems, penalties and envelopes of losses of score differences."""
