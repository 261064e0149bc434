"""Networks and their derivatives: `mlp`, hard constraints, jets, time windows, and traits."""
