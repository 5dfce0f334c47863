"""The fitted function of a mixed model, and its coefficients as statisticians read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag._outputs import by_instance
from unbag._text import aligned, counted, percent, shown
from unbag.defaults import FEWEST_DEGREES
from unbag.models.base import check_instances
from unbag.terms.columns import CategoryTerm, Term
from unbag.terms.encoding import EncodedRows, TableEncoder, is_sparse
from unbag.terms.kernel import KernelTerm

# Coefficients that are printed; all are in the frame.
_SHOWN = 30


@dataclass(frozen=True, eq=False)
class FittedFunction:
    """f(x) = θ₀ + Σ_k φ_k(x)ᵀβ_k: what exports, displays and summaries read of a fitted model."""

    encoder: TableEncoder
    terms: Sequence[Term]  # the φ_k
    columns: Sequence[slice]  # those of theta of each term
    theta: Floats  # (n_outputs, 1 + n_coefficients), at the class prior of all bags together
    offset: Floats  # (n_outputs,), what is added for scores at class_prior_

    def design_matrix(self, rows: EncodedRows) -> Floats:
        """(1, φ_1(x), φ_2(x), …) of each row."""
        Phi = np.zeros((len(rows), self.theta.shape[1]))
        Phi[:, 0] = 1.0
        for term, columns in zip(self.terms, self.columns, strict=True):
            matrix = term.matrix(rows)
            Phi[:, columns] = matrix.toarray() if is_sparse(matrix) else matrix
        return Phi


@dataclass(frozen=True, eq=False, repr=False)
class ModelSummary:
    """Terms and coefficients of a mixed model; it prints as both tables.

    Levels of a category are compared with the mean of all its levels, which the intercept includes:
    bags say little of this mean, and much of differences. ``standard_errors`` are standard deviations of the
    posterior, NaN for models of too many coefficients; ``robust_errors`` are those of the bag-level
    sandwich, which do not rest on the model of the counts.
    """

    terms: list[Any]
    names: list[str]  # the intercept, columns and levels; without features of kernels
    classes: list[str]  # of several classes all, else the second
    coefficients: Floats  # (n_outputs, n_names), in units of the table
    standard_errors: Floats
    robust_errors: Floats
    degrees_of_freedom: float  # of the t distribution of intervals
    confidence_level: float
    facts: dict[str, str]  # rows of the head of the table

    def frame(self) -> Any:
        """One row per coefficient (and class), with its standard errors, t and interval.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """
        n_outputs, n = self.coefficients.shape
        coef, error = self.coefficients.ravel(), self.standard_errors.ravel()
        reach = self._quantile * error
        several = {"class": np.repeat(self.classes, n)} if n_outputs > 1 else {}
        return make_frame(
            {
                **several,
                "column": self.names * n_outputs,
                "coefficient": coef,
                "standard_error": error,
                "robust_error": self.robust_errors.ravel(),
                "t": coef / error,
                "low": coef - reach,
                "high": coef + reach,
            }
        )

    @property
    def _quantile(self) -> float:
        return float(stdtrit(self.degrees_of_freedom, 0.5 + self.confidence_level / 2))

    def __repr__(self) -> str:
        width = max(map(len, self.facts))
        lines = [f"{name:{width}}  {value}" for name, value in self.facts.items()]
        lines += ["", *aligned(term_table(self.terms))]
        level = percent(self.confidence_level, None)
        head = ("Column", "Coefficient", "Std. error", "Robust s.e.", "t", f"{level} interval", "")
        numbers = zip(
            self.classes, self.coefficients, self.standard_errors, self.robust_errors, strict=True
        )
        for name, *columns in numbers:
            own = []
            for column, b, se, robust in list(zip(self.names, *columns, strict=True))[:_SHOWN]:
                low, high = b - self._quantile * se, b + self._quantile * se
                values = f"{b:.4g} {se:.3g} {robust:.3g} {b / se:.2f} {low:.4g} {high:.4g}"
                own.append((shown(column, 30), *values.split()))
            against = " against the mean of all classes" if len(self.classes) > 1 else ""
            title = f"Log-odds of {shown(name, 30)}{against}"
            lines += ["", title, *aligned([head, *own])]
            if len(self.names) > _SHOWN:
                lines.append(f"and {counted(len(self.names) - _SHOWN, 'coefficient')} more")
        return "\n".join(lines)


def term_table(terms: Sequence[Any]) -> list[tuple[str, ...]]:
    """Heads and rows of a table of terms (`unbag.models.mixed.TermSummary`) as text."""
    heads = ("Term", "Columns", "Standard deviation", "Effective df", "Share of variance")
    rows: list[tuple[str, ...]] = [heads]
    for term in terms:
        n = len(term.columns)
        columns = shown(term.columns[0], 30) if n == 1 else f"{n:,}"
        sd, df = f"{term.standard_deviation:.3g}", f"{term.degrees_of_freedom:.1f}"
        rows.append((shown(term.term, 40), columns, sd, df, percent(term.variance_share)))
    return rows


def summarise_model(model: Any, confidence_level: float) -> ModelSummary:
    """Coefficients in units of the table, with both kinds of standard errors."""
    f = model.function_
    n_outputs = len(f.theta)
    theta, offset = _contrast(n_outputs) @ f.theta, _contrast(n_outputs) @ f.offset
    intercept, coef, names = theta[:, 0] + offset, [], ["(intercept)"]
    for term, columns in zip(f.terms, f.columns, strict=True):
        own, offset = term.in_units(theta[:, columns])
        if isinstance(term, CategoryTerm):
            offset = own.mean(axis=1)
            own = own - offset[:, None]
        intercept = intercept + offset
        if not isinstance(term, KernelTerm):
            coef.append(own)
            names += term.names
    coefficients = np.concatenate([intercept[:, None], *coef], axis=1)
    none = np.full(coefficients.shape, np.nan)
    posterior = model.covariance_
    robust = getattr(model, "_robust_errors", None)
    classes = model.classes_[-n_outputs:] if n_outputs > 1 else model.classes_[1:]
    return ModelSummary(
        model.terms_,
        names,
        [str(name) for name in classes],
        coefficients,
        none if posterior is None else standard_errors(f, posterior),
        none if robust is None else robust,
        interval_degrees(model),
        confidence_level,
        {
            "Log marginal likelihood": f"{model.log_marginal_likelihood_:.1f}",
            "Informative bags": f"{model.n_informative_bags_:.1f}",
            "Dispersion": f"{model.dispersion_:.3g}",
            "Bag effect (std. dev.)": f"{np.sqrt(model.bag_effect_):.3g}",
            "Converged": f"{'yes' if model.converged_ else 'no'} ({counted(model.n_iter_, 'iteration')})",
        },
    )


def standard_errors(f: FittedFunction, covariance: Floats) -> Floats:
    """Those of the intercept and of coefficients in units of the table (n_outputs, n_names)."""
    n_outputs, n = f.theta.shape
    own = contrasted(covariance, n_outputs)
    # the intercept in units of the table is a sum over all coefficients
    constant, errors = np.eye(n)[0], []
    for term, columns in zip(f.terms, f.columns, strict=True):
        constant[columns] = term.in_units(np.eye(columns.stop - columns.start))[1]
        block = own[:, columns, columns]
        if isinstance(term, CategoryTerm):
            constant[columns] = 1.0 / block.shape[1]
            block = block - block.mean(axis=1, keepdims=True)
            block = block - block.mean(axis=2, keepdims=True)
        if not isinstance(term, KernelTerm):
            deviations = np.sqrt(np.maximum(np.diagonal(block, axis1=1, axis2=2), 0.0))
            errors.append(term.in_units(deviations)[0])
    intercept = np.sqrt(np.einsum("i,kij,j->k", constant, own, constant))
    return np.concatenate([intercept[:, None], *errors], axis=1)


def robust_errors(f: FittedFunction, fit: Any, likelihood: Any) -> Floats | None:
    """Standard errors by the sandwich PJP, with P the posterior covariance and J of bags."""
    if fit.covariance is None:
        return None
    likelihood = likelihood.with_bag_effects(fit.bag_effects)
    if fit.label_shift:
        likelihood = likelihood.with_label_shift(fit.label_shift)
    J = likelihood.bag_products(fit.theta) / fit.dispersion**2
    if not J.any():
        return None
    n_bags = likelihood.n_bags
    few = n_bags / (n_bags - 1) if n_bags > 1 else 1.0
    return standard_errors(f, few * fit.posterior.covariance @ J @ fit.posterior.covariance)


def interval_degrees(model: Any) -> float:
    """Degrees of freedom of intervals: variances, too, are estimated from so many bags."""
    return max(model.n_informative_bags_ - 1.0, FEWEST_DEGREES)


def score_differences(model: Any, X: Any, reference: Any) -> tuple[Floats, Floats]:
    """How the log-odds of rows differ from those of one row, and posterior standard deviations.

    Of several classes: log-probability less its mean over all classes. ``X`` and ``reference``, of one row,
    are tables; the results have the shape (n_rows,) or (n_rows, n_classes).
    """
    f = model.function_
    covariance = model._check_covariance()
    both = (f.encoder.encode(check_instances(model, one, reset=False)) for one in (X, reference))
    rows, origin = map(f.design_matrix, both)
    Phi = rows - origin
    own = contrasted(covariance, len(f.theta))
    variances = [((Phi @ one) * Phi).sum(axis=1) for one in own]
    sd = np.sqrt(np.maximum(variances, 0.0))
    return by_instance(_contrast(len(f.theta)) @ f.theta @ Phi.T), by_instance(sd)


def contrasted(covariance: Floats, n_outputs: int) -> Floats:
    """Covariances of the coefficients of each class, less their mean over several classes."""
    contrast = _contrast(n_outputs)
    joint = covariance.reshape(n_outputs, -1, n_outputs, len(covariance) // n_outputs)
    return np.einsum("ka,aicj,kc->kij", contrast, joint, contrast)


def _contrast(n_outputs: int) -> Floats:
    """What takes the mean of several outputs away."""
    return np.eye(n_outputs) - (n_outputs > 1) / n_outputs
