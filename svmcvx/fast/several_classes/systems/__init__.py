"""The work of a step: Newton systems, penalties and envelopes of losses of score differences."""
