"""Every flow regime gets its guaranteed coverage

The friction of a pipe as a function of the Reynolds number, with two textbook formulas
as the model. Laminar flow follows its formula to two percent, turbulent flow varies
more, and between 2300 and 4000 the friction is unpredictable. Constant width covers 95
% on average and far less in the transition. `gb.Grouped` calibrates each regime with
its own readings, so each is covered at the level. Each regime needs enough readings, 19
at 95 %, and the regime of a new reading must be known.
"""

import matplotlib.pyplot as plt
import numpy as np

import guardband as gb

SCATTER = {"laminar": 0.02, "transition": 0.25, "turbulent": 0.06}
"""Standard deviation of the logarithm of the friction factor in each regime."""


def regime(reynolds: np.ndarray) -> np.ndarray:
    """The regime of each flow, (n,)."""
    names = np.array(list(SCATTER))
    return names[(reynolds > 2300).astype(int) + (reynolds > 4000)].reshape(-1)


def friction(reynolds: np.ndarray) -> np.ndarray:
    """The logarithm of the Darcy friction factor: Hagen-Poiseuille, then Blasius."""
    return np.log(np.where(reynolds < 2300, 64 / reynolds, 0.3164 / reynolds**0.25))


def measured(n: int, seed: int) -> gb.Observations:
    """n pipes with Reynolds numbers from 1000 to 20 000."""
    rng = np.random.default_rng(seed)
    reynolds = np.exp(rng.uniform(np.log(1000), np.log(20_000), size=(n, 1)))
    scatter = np.vectorize(SCATTER.get)(regime(reynolds))[:, None]
    return gb.Observations(
        reynolds, friction(reynolds) + scatter * rng.normal(size=(n, 1))
    )


cal, test = measured(400, seed=1), measured(20_000, seed=2)
predictor = gb.predictors.MeanOnly(friction)
plain = gb.calibrate(predictor, cal.x, cal.y)
grouped = gb.calibrate(
    predictor, cal.x, cal.y, calibrator=gb.Grouped(), groups=regime(cal.x)
)

figure, axes = plt.subplots(
    2, 1, figsize=(6.4, 5.6), sharex=True, sharey=True, layout="constrained"
)
reynolds = np.geomspace(1000, 20_000, 1000)[:, None]
for ax, name, calibrated in zip(
    axes, ("One for all", "Grouped"), (plain, grouped), strict=True
):
    band, answers = (
        calibrated(x, level=0.95, groups=regime(x) if calibrated is grouped else None)
        for x in (reynolds, test.x)
    )
    covered = answers.contains(test.y)
    ax.plot(cal.x, np.exp(cal.y), ".", ms=3, color=gb.plot.GRAY, label="data")
    ax.fill_between(
        reynolds[:, 0],
        *np.exp([band.lower[:, 0], band.upper[:, 0]]),
        color=gb.plot.BLUE,
        alpha=0.25,
        lw=0,
        label="0.95 band",
    )
    for where, at in {"laminar": 1500, "transition": 3030, "turbulent": 9000}.items():
        share = 100 * covered[regime(test.x) == where].mean()
        ax.text(
            at,
            0.103,
            f"{where}\n{share:.0f} %",
            ha="center",
            va="center",
            fontsize="small",
        )
    for border in (2300, 4000):
        ax.axvline(border, color=gb.plot.ORANGE, lw=0.8, ls=":")
    ax.set(
        xscale="log",
        yscale="log",
        ylabel="friction factor",
        ylim=(0.018, 0.12),
        xlim=(1000, 20_000),
    )
    ax.set_xticks(
        [1000, 2300, 4000, 10_000, 20_000], ["1000", "2300", "4000", "10 000", "20 000"]
    )
    ax.set_xticks([], minor=True)
    ax.set_title(
        f"{name}: 95 % asked, {100 * covered.mean():.0f} % covered", fontsize="medium"
    )
axes[1].set_xlabel("Reynolds number")
axes[0].legend(frameon=False, fontsize="small", loc="lower left")
axes[0].yaxis.set_minor_formatter("")
axes[0].set_yticks([0.02, 0.05, 0.1], ["0.02", "0.05", "0.1"])
figure.savefig("regimes.png", dpi=120)
