"""Training: from a problem, a network and observations to a `Fitted`."""
