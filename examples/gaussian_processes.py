# %% [markdown]
# # Gaussian processes for replay
#
# *Question: BIER predicts outcomes of blended states with Gaussian processes
# instead of a straight line.
# When is that better, and what does it cost?*

# %%
import time

import numpy as np
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREEN, GREY, ORANGE, PINK, show

from interreplay.synthesis.gaussian_process import Fit, Form, Hyperparameters
from interreplay.synthesis.gaussian_process.fit import fit
from interreplay.synthesis.gaussian_process.processes import covariance, posterior

torch.set_num_threads(1)
DOUBLE = torch.float64


def numbers(length, noise=1e-3, scale=1.0, groups=1, features=1, dtype=DOUBLE):
    """One set of constant hyperparameters."""
    return Hyperparameters(
        lengthscale=torch.full((1, groups, features), length, dtype=dtype),
        outputscale=torch.full((1, groups), scale, dtype=dtype),
        noise=torch.full((1, groups), noise, dtype=dtype),
        alpha=torch.ones((1, groups, 1), dtype=dtype),
        constant=torch.zeros((1, groups), dtype=dtype),
    )


# %% [markdown]
# ## Kernels
#
# A kernel defines how similar a function's values at two points are,
# and therefore how smooth its draws are.

# %%
KERNELS = {
    "rbf": (Form("rbf"), BLUE),
    "rq (BIER's)": (Form("rq"), GREEN),
    "matern, ν = 0.5": (Form("matern", nu=0.5), ORANGE),
}
line = torch.linspace(-3, 3, 200, dtype=DOUBLE)
squares = (line[:, None] - line[None, :]).square().reshape(1, -1, 1)
figure, panels = plt.subplots(1, 4, figsize=(12, 3))
for panel, (name, (form, color)) in zip(panels[1:], KERNELS.items(), strict=True):
    form = form.over(1, 0)
    matrix = covariance(form, numbers(1.0), squares).view(200, 200)
    draws = torch.linalg.cholesky(matrix + 1e-8 * torch.eye(200)) @ torch.randn(
        200, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(1)
    )
    panels[0].plot(line, matrix[100], color=color)
    panel.plot(line, draws, color=color, linewidth=1)
    panel.set(ylim=(-3, 3), xlabel="z")
    panel.set_title(f"draws, {name}", color=color)
panels[0].set(title="likeness to z = 0", xlabel="z")
show(figure, "gp_kernels")

# %% [markdown]
# *Left: covariance with the value at z = 0.
# Other panels: three random functions drawn with each kernel.*
#
# ## The posterior and the line
#
# A neighborhood of NMER has an anchor and ten neighbors.
# Where the dynamics bend, the line between two of these points is wrong.
# A process through all points follows the bend and reports its uncertainty.


# %%
def bent(z, bend):
    """A sine of frequency `bend`."""
    return torch.sin(bend * z)


generator = torch.Generator().manual_seed(3)
near = (2 * torch.rand(11, generator=generator, dtype=DOUBLE) - 1).sort().values
form = Form("rq").over(1, 0)
figure, panels = plt.subplots(1, 3, figsize=(12, 3.2), sharey=True)
query = torch.linspace(-1.6, 1.6, 200, dtype=DOUBLE)
for panel, bend in zip(panels, (0.5, 2.0, 5.0), strict=True):
    x, y = near.view(1, 11, 1), bent(near, bend).view(1, 11, 1)
    start = Hyperparameters.make_initial(form, 1, 1.0, DOUBLE)
    found = posterior(form, fit(Fit(epochs=100), form, start, x, y).hyper, x, y, query.view(1, -1, 1))
    mean, deviation = found.mean[0, :, 0], found.variance[0, :, 0].sqrt()
    panel.plot(query, bent(query, bend), color=GREY, linewidth=1, linestyle="--")
    panel.fill_between(query, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.15, linewidth=0)
    panel.plot(query, mean, color=BLUE, linewidth=2)
    panel.plot(near[[1, 9]], bent(near[[1, 9]], bend), color=ORANGE, linewidth=2)
    panel.plot(near, bent(near, bend), "o", color="black", markersize=4)
    panel.set(title=f"bend {bend:g}", xlabel="z", ylim=(-1.6, 1.6))
panels[0].annotate("process ± 2σ", (0.05, 0.9), xycoords="axes fraction", color=BLUE)
panels[0].annotate("line between two", (0.05, 0.8), xycoords="axes fraction", color=ORANGE)
panels[0].annotate("truth", (0.05, 0.7), xycoords="axes fraction", color=GREY)
show(figure, "gp_posterior")

# %% [markdown]
# *Dots: the anchor and its neighbors.
# The shaded band is two standard deviations wide on each side of the mean.*
#
# ## When is a process better than a line?
#
# The test has two hundred neighborhoods in four dimensions.
# Each contains a blend of the anchor with a random neighbor.
# The deciding quantity is how much the outcome bends *within a neighborhood*.


# %%
def compared(bend, count=200, features=4, seed=0):
    """Relative RMSE of the process and of the line at blends of an anchor and a neighbor."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 11, features, generator=generator, dtype=DOUBLE)
    direction = torch.randn(features, generator=generator, dtype=DOUBLE)
    direction /= direction.norm()
    outcome = lambda z: torch.sin(bend * (z @ direction)) / bend  # noqa: E731 — the same slope at every bend
    share = torch.rand(count, 1, generator=generator, dtype=DOUBLE)
    point = share * x[:, 0] + (1 - share) * x[:, 1]
    blend = share[:, 0] * outcome(x[:, 0]) + (1 - share[:, 0]) * outcome(x[:, 1])
    y = outcome(x).unsqueeze(2)
    form = Form("rq").over(features, 0)
    start = Hyperparameters.make_initial(form, 1, 1.0, DOUBLE)
    hyper = fit(Fit(epochs=30), form, start, x, y).hyper.average()
    mean = posterior(form, hyper, x, y, point.unsqueeze(1)).mean[:, 0, 0]
    spread = outcome(x).std()
    return [float((guess - outcome(point)).square().mean().sqrt() / spread) for guess in (mean, blend)]


bends = [0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0]
errors = np.array([compared(bend) for bend in bends])
figure, panel = plt.subplots(figsize=(6, 3.6))
for values, color, name in zip(errors.T, (BLUE, ORANGE), ("process", "line"), strict=True):
    panel.loglog(bends, values, "o-", color=color)
    panel.annotate(name, (bends[0], values[0]), xytext=(0, 6), textcoords="offset points", color=color)
panel.set(
    title="error at blends of two of eleven points",
    xlabel="bend within a neighborhood (radians per standard deviation)",
    ylabel="RMSE ÷ spread of the outcome",
)
show(figure, "gp_line")

# %% [markdown]
# *Lower is better. Both axes are logarithmic.*

# %%
print(*(f"bend {bend:g}: process {a:.3f}, line {b:.3f}" for bend, (a, b) in zip(bends, errors, strict=True)), sep="\n")

# %% [markdown]
# ## Stability
#
# Nearly equal neighbors make the covariance matrix nearly singular.
# Its condition number, the ratio of its largest to its smallest eigenvalue,
# must stay below about 10⁷ in single precision.
# The noise σ² on the diagonal bounds this number.
# BIER keeps σ² above 10⁻³, works in single precision,
# and adds jitter only to matrices that cannot be factorized.

# %%
gaps = np.logspace(-5, 0, 16)
figure, panel = plt.subplots(figsize=(6, 3.6))
for noise, color in ((1e-8, PINK), (1e-3, BLUE), (1e-1, GREEN)):
    conditions = []
    for gap in gaps:
        x = gap * torch.arange(11, dtype=DOUBLE)
        pairs = (x[:, None] - x[None, :]).square().reshape(1, -1, 1)
        matrix = covariance(Form("rbf").over(1, 0), numbers(1.0), pairs).view(11, 11) + noise * torch.eye(11)
        conditions.append(float(torch.linalg.cond(matrix)))
    panel.loglog(gaps, conditions, color=color, linewidth=2)
    panel.annotate(f"σ² = {noise:g}", (gaps[0], conditions[0]), xytext=(2, 4), textcoords="offset points", color=color)
panel.axhline(1e7, color=GREY, linestyle="--", linewidth=1)
panel.annotate("single precision", (1, 1e7), xytext=(-90, 4), textcoords="offset points", color=GREY)
panel.set(title="eleven points on a line", xlabel="gap between neighbors ÷ length scale", ylabel="condition number")
show(figure, "gp_stability")

# %% [markdown]
# *Above the dashed line, single precision fails. Both axes are logarithmic.*
#
# ## Throughput
#
# A batch of 256 has 256 neighborhoods × 18 targets (HalfCheetah: the reward and 17 changes of state)
# × one query, which makes 4,608 small processes.
# They are solved as one batch of Cholesky factorizations:
# one per neighborhood if the targets share a kernel, else one per target.
# The plot compares them with the straightforward loop over neighborhoods.


# %%
def milliseconds(work, repeats=5):
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return 1e3 * float(np.median(taken))


def timed(n, targets=18, features=23):
    """Milliseconds for n neighborhoods: shared kernel, a kernel per target, loop over neighborhoods."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, 11, width, generator=generator) for width in (features, targets))
    query = torch.randn(n, 1, features, generator=generator)
    shared, own = Form("rq").over(features, 6), Form("rq", per_target=True).over(features, 6)
    one = numbers(10.0, groups=1, features=features, dtype=torch.float32)
    each = numbers(10.0, groups=targets, features=features, dtype=torch.float32)
    ways = [
        lambda: posterior(shared, one, x, y, query),
        lambda: posterior(own, each, x, y, query),
        lambda: [posterior(shared, one, x[i : i + 1], y[i : i + 1], query[i : i + 1]) for i in range(n)],
    ]
    return [milliseconds(way) for way in ways]


counts = [16, 64, 256]
times = np.array([timed(n) for n in counts])
figure, panel = plt.subplots(figsize=(6, 3.6))
labels = (("one kernel for all targets", BLUE), ("a kernel per target", GREEN), ("a loop over neighborhoods", ORANGE))
for values, (name, color) in zip(times.T, labels, strict=True):
    panel.loglog(counts, values, "o-", color=color)
    panel.annotate(name, (counts[-1], values[-1]), (-8, 6), textcoords="offset points", color=color, ha="right")
panel.set(title="18 targets, 11 points, 23 features", xlabel="neighborhoods at once", ylabel="milliseconds")
panel.set_xticks(counts, counts, minor=False)
panel.minorticks_off()
show(figure, "gp_throughput")

# %% [markdown]
# *Median of five calls on one thread. The time axis is logarithmic.*

# %%
print(f"256 neighborhoods: {times[-1, 0]:.1f} ms together, {times[-1, 2]:.0f} ms one by one")

# %% [markdown]
# **The answer.** Where the outcome bends within a neighborhood,
# the error of the processes is about half to three quarters of the line's.
# Where the outcome is linear, the line is better and costs nothing.
# Where the outcome bends too much for eleven points, neither method works.
# In the buffers of MuJoCo's locomotion tasks, the line is equal or better (`benchmarks/RESULTS.md`),
# and the processes only add an estimate of their uncertainty.
# In batches, the processes cost less than one SAC update.

# %%
assert errors[bends.index(1.0), 0] < errors[bends.index(1.0), 1]
assert times[-1, 0] < times[-1, 2]
