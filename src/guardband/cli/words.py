"""The words that may be said on the command line for predictors and calibrators."""

SCALES = ("constant", "distance", "latent-distance", "dropout", "laplace", "last-layer-laplace", "own")
"""Words for predictors; `own` is for an object that is a predictor already."""

CALIBRATORS = ("split", "grouped", "clustered", "local", "weighted", "randomlylocalized")
"""Words for calibrators."""

NOISES = ("symmetric", "exchangeable", "gaussian")
"""Words for what is known of the noise of readings."""

LAWS = ("gaussian", "laplace", "uniform", "bounded")
"""Words for noise of a known law, each with its size."""

METHODS = ("adaptive", "decaying", "pid", "rolling")
"""Words for how bands follow a stream."""
