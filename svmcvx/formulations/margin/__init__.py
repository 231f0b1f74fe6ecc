"""The margin family: pSVM and the hard-margin machine."""
