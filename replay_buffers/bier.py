"""BIER. Sander 2021, Bayesian interpolated experience replay, MEng thesis, MIT, hdl.handle.net/1721.1/138972."""

from functools import partial

from interreplay import ReplayBuffer
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import KNN
from interreplay.selection import Selector
from interreplay.synthesis.blend import TerminationFn
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.gaussian_process import (
    Fit,
    Form,
    GaussianProcess,
    HoldOut,
    Preparation,
    QueuedGaussianProcess,
    schedule_named,
)


class BIER(ReplayBuffer):
    """Each anchor's state and action blended with a neighbor's, reward and next state predicted there.

    One exact Gaussian process for the reward and one per number of Δs, conditioned on the anchor and its k nearest
    neighbors; a batch costs less than one SAC update. Bends along where the dynamics bend within a neighborhood, and
    says how sure it is. On MuJoCo's locomotion its outcomes on the line are no closer to the simulator than the linear
    blend's (benchmarks/RESULTS.md): what it adds there are variances and weights.

    Args:
        k: Neighbors to condition on, one of which is blended in.
        alpha: λ ~ Beta(α, α).
        kernel: ``"rbf"``, ``"matern"`` or ``"rq"``.
        nu: ν of the Matérn kernel: .5, 1.5 or 2.5.
        ard: One length scale per feature.
        composite: A kernel for states times one for actions.
        per_target: A kernel for each target; one for all without, which takes half the time.
        mean: ``"zero"``, ``"constant"`` or ``"linear"``.
        scaling: Of features in a neighborhood: ``"standardize"``, ``"minmax"`` or ``"none"``.
        pca_components: Principal components of the features to work on; None for the features themselves.
        hyperparameters: ``"monte_carlo"``: the mean of fits of `train_size` neighborhoods; ``"rows"``: one fit on
            `train_size` random rows; ``"local"``: a fit for every neighborhood of every batch.
        train_size: See there; 32 neighborhoods or 256 rows by default.
        retrain_interval: Batches between two fits of shared hyperparameters.
        warm_start: Fits start where the last one ended.
        epochs: Steps of a fit; 30, and 10 for local ones, by default.
        optimizer: ``"adam"`` or ``"lbfgs"``; the latter finds extremes of flat likelihoods without `priors`.
        priors: Gamma priors on hyperparameters.
        sample_posterior: Outcomes are drawn from the posterior; its mean without.
        weighted_updates: Learners weigh rows by how sure the processes are of them.
        holdout_split: Share of each neighborhood left out to evaluate predictions, every 500 batches; None for never.
        queue: Outcomes predicted at once per neighborhood, for later batches; None for those of the batch alone. Pays
            with ``hyperparameters="local"``.
        queue_rings: Rows that have such outcomes at a time; see `QueuedGaussianProcess` for their memory.
        precision: ``"float32"`` or ``"float64"``.
        selector: Draws the anchors; uniformly by default.
        credit: Whom a TD error of a blend is credited to; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: What that probability loses over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without, rows with a terminated end stay.
    """

    # fmt: off
    def __init__(
        self, *, capacity: int = 1_000_000, k: int = 10, alpha: float = 0.75,
        # the processes
        kernel: str = "rq", nu: float = 2.5, ard: bool = True, composite: bool = False, per_target: bool = True,
        mean: str = "zero", scaling: str = "standardize", pca_components: int | None = None,
        # their hyperparameters
        hyperparameters: str = "monte_carlo", train_size: int | None = None, retrain_interval: int = 1000,
        warm_start: bool = True, epochs: int | None = None, optimizer: str = "adam", priors: bool = False,
        # what comes out
        sample_posterior: bool = False, weighted_updates: bool = False, holdout_split: float | None = None,
        queue: int | None = None, queue_rings: int = 100_000, precision: str = "float32",
        # as in every method that blends
        selector: Selector | None = None, credit: PriorityUpdate | None = None, prob_interpolation: float = 1.0,
        interp_decay: float = 0.0, termination_fn: TerminationFn | str | None = None,
        n_step: int | tuple[int, int] = 1, gamma: float = 0.99, seed: int | None = None, device: str = "cpu",
    ):
        # fmt: on
        local = hyperparameters == "local"
        fit = Fit((10 if local else 30) if epochs is None else epochs, optimizer, priors=priors)
        make = GaussianProcess if queue is None else partial(QueuedGaussianProcess, queue, queue_rings)
        synthesizer = make(
            form=Form(kernel, nu, ard, mean, per_target, composite),
            preparation=Preparation(scaling, pca_components, precision),
            schedule=schedule_named(hyperparameters, fit, train_size, retrain_interval, warm_start),
            coefficient=Beta(alpha),
            sample_posterior=sample_posterior,
            weighted=weighted_updates,
            holdout=None if holdout_split is None else HoldOut(holdout_split),
            prob_interpolation=prob_interpolation,
            termination_fn=termination_fn,
            interp_decay=interp_decay,
        )
        neighbors = KNN(k, draw=k)  # all of them, the one that is blended in first
        super().__init__(capacity, selector, neighbors, synthesizer, credit, n_step, gamma, seed, device)
