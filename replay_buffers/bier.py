"""BIER, Bayesian interpolated experience replay. Sander 2021, MEng thesis, MIT, hdl.handle.net/1721.1/138972."""

from interreplay import ReplayBuffer
from interreplay.neighborhood import KNN
from interreplay.selection import Selector
from interreplay.selection.credit import PriorityUpdate
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.gaussian_process import (
    Fit,
    Form,
    GaussianProcess,
    HoldOut,
    Preparation,
    Schedule,
)
from interreplay.synthesis.mixup import TerminationFn


class BIER(ReplayBuffer):
    """Blends each anchor's state and action with a neighbor's and predicts the reward and the next state there.

    One exact Gaussian process for the reward and one per number of Δs are conditioned on the anchor and its k nearest
    neighbors. A batch costs less than one SAC update. In contrast to a linear blend, predictions follow nonlinear
    dynamics and have variances. On MuJoCo's locomotion tasks they are not closer to the simulator than the linear blend
    (benchmarks/RESULTS.md); there it contributes variances and weights.

    Source: Sander 2021, Interpolated experience replay for improved sample efficiency of model-free deep reinforcement
    learning algorithms, MEng thesis, MIT, hdl.handle.net/1721.1/138972.

    Args:
        k: Number of neighbors to condition on; one of them is blended with the anchor.
        alpha: λ ~ Beta(α, α).
        kernel: ``"rbf"``, ``"matern"`` or ``"rq"``.
        nu: ν of the Matérn kernel: .5, 1.5 or 2.5.
        ard: Whether to use one length scale per feature.
        composite: Whether to use the product of a kernel for states and one for actions.
        per_target: Whether to use one kernel per target; a single kernel for all targets takes half the time.
        mean: ``"zero"``, ``"constant"`` or ``"linear"``.
        scaling: Scaling of features in a neighborhood: ``"standardize"``, ``"minmax"`` or ``"none"``.
        pca_components: Number of principal components of the features; None for the features themselves.
        hyperparameters: ``"monte_carlo"``: the mean of fits of `train_size` neighborhoods; ``"rows"``: one fit on
            `train_size` random rows; ``"local"``: a fit for every neighborhood of every batch.
        train_size: Number of neighborhoods (32 by default) or rows (256) of a fit.
        retrain_interval: Batches between two fits of shared hyperparameters.
        warm_start: Whether fits start at the result of the previous one.
        epochs: Steps of a fit; 30 by default, 10 for local fits.
        optimizer: ``"adam"`` or ``"lbfgs"``; without `priors`, the latter finds extremes of flat likelihoods.
        priors: Whether to use Gamma priors on hyperparameters.
        sample_posterior: Whether outcomes are drawn from the posterior instead of taking its mean.
        weighted_updates: Whether learners weight rows by the certainty of their predictions.
        holdout_split: Share of each neighborhood held out to evaluate predictions every 500 batches; None for no
            evaluation.
        precision: ``"float32"`` or ``"float64"``.
        selector: Draws the anchors; uniform by default.
        credit: Which rows receive the TD error of a blend; the anchor by default.
        prob_interpolation: Probability with which a row is blended.
        interp_decay: Decrease of `prob_interpolation` over the run.
        termination_fn: ``(s, a, s') -> (n,) bool`` or an environment's id; without it, rows with a terminated end are
            not blended.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import BIER
        >>> buffer = BIER(capacity=1_000, k=10, kernel="rq", seed=0)
        >>> slots = buffer.add(Episodes().transitions(200))
        >>> sample = buffer.sample(32)
        >>> tuple(sample.variances.shape)  # of the reward and of three numbers of the state
        (32, 4)
    """

    # fmt: off
    def __init__(
        self, *, capacity: int = 1_000_000, k: int = 10, alpha: float = 0.75,
        # the Gaussian processes
        kernel: str = "rq", nu: float = 2.5, ard: bool = True, composite: bool = False, per_target: bool = True,
        mean: str = "zero", scaling: str = "standardize", pca_components: int | None = None,
        # their hyperparameters
        hyperparameters: str = "monte_carlo", train_size: int | None = None, retrain_interval: int = 1000,
        warm_start: bool = True, epochs: int | None = None, optimizer: str = "adam", priors: bool = False,
        # the results
        sample_posterior: bool = False, weighted_updates: bool = False, holdout_split: float | None = None,
        precision: str = "float32",
        # as in all methods that blend
        selector: Selector | None = None, credit: PriorityUpdate | None = None, prob_interpolation: float = 1.0,
        interp_decay: float = 0.0, termination_fn: TerminationFn | str | None = None,
        n_step: int | tuple[int, int] = 1, gamma: float = 0.99, seed: int | None = None, device: str = "cpu",
    ):
        # fmt: on
        if epochs is None:
            epochs = 10 if hyperparameters == "local" else 30
        fit = Fit(epochs, optimizer, priors=priors)
        holdout = None
        if holdout_split is not None:
            holdout = HoldOut(holdout_split)
        synthesizer = GaussianProcess(
            form=Form(kernel, nu, ard, mean=mean, per_target=per_target, composite=composite),
            preparation=Preparation(scaling, pca_components, precision),
            schedule=Schedule(hyperparameters, fit, train_size, every=retrain_interval, warm_start=warm_start),
            coefficient=Beta(alpha),
            sample_posterior=sample_posterior,
            weighted=weighted_updates,
            holdout=holdout,
            prob_interpolation=prob_interpolation,
            termination_fn=termination_fn,
            interp_decay=interp_decay,
        )
        neighbors = KNN(k, draw=k)  # all of them in random order; the first one is blended
        super().__init__(
            capacity, selector, neighbors, synthesizer,
            credit=credit, n_step=n_step, gamma=gamma, seed=seed, device=device,
        )
