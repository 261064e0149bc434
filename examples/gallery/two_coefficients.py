"""Damping and frequency of an oscillator: one joint region from forty readings

Left: the region at 95 %. It contains both true coefficients together in at least that
share of data sets, for any noise that is independent and symmetric about zero. Right:
the remaining uncertainty of the motion. The envelope contains the true solution at all
times at once if the equation is right. It is much narrower than the noise, because
forty readings determine two unknowns.
"""

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb
from guardband import pinn

TRUTH = {"damping": 0.05, "frequency": 6.2}

family = pinn.Family(
    pinn.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)
)
data = pinn.problems.DampedOscillator(**TRUTH).observe(40, noise=0.15, seed=3)
estimates = pinn.coefficients(family.exact(), data)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), width_ratios=(2, 3), layout="constrained"
)
pinn.plot.region(estimates, truth=TRUTH, ax=left)

t = np.linspace(0, 5, 400)[:, None]
envelope = estimates.envelope(t)
truth = family.exact()(t, [list(TRUTH.values())])[0]
gb.plot.band(envelope.band, truth=truth, data=data, ax=right)
handles, _ = right.get_legend_handles_labels()
words = ["readings", "truth", "least squares", "95 % envelope"]
right.legend(
    handles,
    words,
    frameon=False,
    fontsize="small",
    ncols=4,
    loc="lower center",
    bbox_to_anchor=(0.5, 1),
)
figure.savefig("two_coefficients.png", dpi=120)
