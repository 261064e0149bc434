"""Words that the command line accepts for predictors, calibrators, noise and stream methods."""

SCALES = ("constant", "distance", "latent-distance", "dropout", "laplace", "last-layer-laplace", "own")
"""Predictors; `own` means that the given object already is a predictor."""

CALIBRATORS = ("split", "grouped", "clustered", "local", "weighted", "randomlylocalized")

NOISES = ("symmetric", "exchangeable", "gaussian")
"""Assumptions about the noise of readings."""

LAWS = ("gaussian", "laplace", "uniform", "bounded")
"""Noise laws, each of which needs a size."""

METHODS = ("adaptive", "decaying", "pid", "rolling")
"""Methods that adapt bands to a stream."""
