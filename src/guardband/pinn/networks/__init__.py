"""Networks and their derivatives: `mlp`, hard constraints, jets, windows of time, and traits."""
