"""Names of what an algorithm can offer to a replay method beside the TD errors of its batches."""

MEAN_ERROR, LARGEST_ERROR = "mean_error", "largest_error"
"""Scores of a row: mean and maximum of |δ| over the critics."""
REDUCIBLE_LOSS = "reducible_loss"
"""Score of a row: δ² less δ'², means over the critics, where δ' has the targets' own value of (s, a) in place of the
critic's (Sujit et al. 2022, arXiv:2208.10483)."""
SCORING = "score"
"""Scores of any rows at any time, by forward passes."""
ACTOR_WEIGHTS = "actor_weights"
"""Weights of rows in the losses of the actor and the temperature alone."""
CRITIC_LOSS = "critic_loss"
"""A loss of the critics that rows bring along."""
