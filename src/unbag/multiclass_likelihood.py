"""The count likelihood for any number of classes: each class against the rest.

Let e^{f_c(x)} be the density of class c up to a factor that all C classes share, which is what
softmax scores at equal class priors estimate. Call all classes but c the rest. If the labels of
the rest are independent, and are c' with probability ρ_{c'}, then the log-odds of c against the
rest at equal priors of the two are

    g_c = f_c − log Σ_{c'≠c} ρ_{c'} e^{f_{c'}},    ρ_{c'} = m_{c'} / (Σ_{k≠c} m_k),

with m the shares of the classes. The counts of class c alone then have the two-class likelihood
L_c(g_c) of `unbag.likelihood`, and those of all classes the composite likelihood

    L(f) = (C − 1)/C · Σ_c L_c(g_c),
    dL/df_c = (C − 1)/C · (G_c − Σ_{k≠c} w_{kc} G_k),    G_c = dL_c/dg_c,

where w_{kc} is the part of class c in Σ_{c'≠k} ρ_{c'} e^{f_{c'}}. For C = 2 this is the likelihood
itself. The factor makes it a log loss per instance: for labelled rows of C equally likely classes
that are hard to tell apart, L is curved like the softmax loss.

This approximates the likelihood of all counts together in two respects. Each class looks at its own
counts only, which costs a little precision but adds no bias. And the make-up of the rest is taken
to be the same in every bag. In shuffled bags that is so, and every L_c is exact; where proportions
vary it is not. For three classes whose shares have a Dirichlet distribution, the minimiser of the
mean of L over all bags of three was off by at most .0003, .0015 and .005 in the chance of a class,
for concentrations of 30, 6 and 2; in bags of five by .001, .005 and .011.

To put the proportions of the bag itself for ρ is no way out: they give the count away (if the rest
of a bag of three is half and half, the count is one), and a likelihood that does not know this is
biased even in shuffled bags, by .015 in bags of three and .019 in bags of five. It was nearer only
at a concentration of 2 in bags of five, and classifiers trained with it were no better on the
whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from unbag.arrays import Array
from unbag.bags import Bags
from unbag.count_prior import CountPrior
from unbag.likelihood import CountLikelihood


class OneAgainstRestLikelihood:
    """Composite likelihood of the counts of bags, each class against the rest, in score space.

        L(f) = (C − 1)/C · Σ_c L_c(f_c − log Σ_{c'≠c} ρ_{c'} e^{f_{c'}}),

    where L_c is the `CountLikelihood` of class c, per instance, and ρ the shares of the other
    classes among themselves. Scores are those of softmax at equal class priors; a constant added
    to all scores of an instance changes nothing.

    Each problem has its own priors of the counts, fitted to the bags it includes, and its own ρ
    from their means. Rows of known label count as bags of one instance.

    Parameters
    ----------
    included : ndarray of bool, shape (n_bags,) or (n_problems, n_bags)
        The bags that each problem learns from; the others are held out and count for nothing.
    bags : Bags
        Who is in which bag, of two or more classes. Shares that do not give whole counts are
        rounded to the nearest count.
    like : array, optional
        Array whose namespace and device the scores will have.

    Attributes
    ----------
    n_outputs : int
        Number of classes.
    priors : list of list of CountPrior
        For each problem, one for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag import bag_target, check_bag_target
    >>> from unbag.multiclass_likelihood import OneAgainstRestLikelihood
    >>> shares = [[1/3, 1/3, 1/3]] * 3 + [[2/3, 1/3, 0]] * 3
    >>> bags = check_bag_target(bag_target([1, 1, 1, 2, 2, 2], shares))
    >>> likelihood = OneAgainstRestLikelihood(np.array([True, True]), bags)
    >>> scores, problem = np.zeros((1, 3, 6)), np.zeros(1, dtype=int)
    >>> value, gradient = likelihood.value_and_gradient(scores, problem)
    >>> float(value[0].round(3))
    0.576
    >>> gradient[0].argmin(axis=0)  # of which class more is asked for, in each instance
    array([2, 2, 2, 0, 0, 0])
    """

    def __init__(self, included: NDArray[np.bool_], bags: Bags, like: Array | None = None) -> None:
        self.n_outputs = bags.n_classes
        self._by_class = [
            CountLikelihood(included, _against_rest(bags, c), like) for c in range(bags.n_classes)
        ]
        self.priors: list[list[CountPrior]] = [
            list(row) for row in zip(*(part.priors for part in self._by_class), strict=True)
        ]
        shares = np.array([[prior.mean for prior in row] for row in self.priors])
        rests = [np.delete(shares, c, axis=1) for c in range(bags.n_classes)]
        self._log_rho = [np.log(rest / rest.sum(axis=1, keepdims=True)) for rest in rests]

    def value(self, scores: Array, problem: NDArray[np.intp]) -> NDArray[np.float64]:
        """Composite negative log-likelihood per column."""
        value = np.zeros(len(problem))
        for c, part in enumerate(self._by_class):
            value += part.value(self._log_odds(scores, problem, c)[0], problem)
        return value * (1 - 1 / self.n_outputs)

    def value_and_gradient(
        self, scores: Array, problem: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], Array]:
        """Composite negative log-likelihood per column and its gradient, of the scores' shape."""
        xp = array_namespace(scores)
        value = np.zeros(len(problem))
        gradient = xp.zeros(scores.shape, dtype=xp.float64, device=device(scores))
        for c, part in enumerate(self._by_class):
            log_odds, parts = self._log_odds(scores, problem, c)
            one, slope = part.value_and_gradient(log_odds, problem)
            value += one
            gradient[:, :c, :] -= parts[:, :c, :] * slope
            gradient[:, c : c + 1, :] += slope
            gradient[:, c + 1 :, :] -= parts[:, c:, :] * slope
        factor = 1 - 1 / self.n_outputs
        return value * factor, xp.astype(gradient * factor, scores.dtype)

    def _log_odds(self, scores: Array, problem: NDArray[np.intp], c: int) -> tuple[Array, Array]:
        """Log-odds of class c against the rest, and the part of each other class in the rest."""
        xp = array_namespace(scores)
        problem = np.zeros_like(problem) if len(self.priors) == 1 else problem
        log_rho = xp.asarray(self._log_rho[c][problem][:, :, None], device=device(scores))
        scores = xp.astype(scores, xp.float64)
        rest = xp.concat([scores[:, :c, :], scores[:, c + 1 :, :]], axis=1) + log_rho
        largest = xp.max(rest, axis=1, keepdims=True)
        powers = xp.exp(rest - largest)
        total = xp.sum(powers, axis=1, keepdims=True)
        return scores[:, c : c + 1, :] - largest - xp.log(total), powers / total


def _against_rest(bags: Bags, c: int) -> Bags:
    """Make two classes of all: class c, and the rest."""
    share = bags.proportions[:, c]
    two = np.column_stack([1 - share, share])
    return replace(bags, proportions=two, classes=np.arange(2), noise=None)
