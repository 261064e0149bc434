"""Networks and their derivatives: `mlp`, hard constraints, jets, and windows of time."""
