"""Fitted models as expressions of SQL, which score rows where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.utils.validation import check_is_fitted

from unbag._arrays import Floats
from unbag.bags.priors import prior_offset
from unbag.models.boosting import LLPBoostingClassifier
from unbag.models.ensemble import LLPEnsembleClassifier
from unbag.models.mixed import LLPClassifier
from unbag.tables.features import DIGITS, PERIODS, DatetimeFeatures, NumericFeatures
from unbag.tables.mixed_features import MixedFeatures
from unbag.tables.pipeline import gap_goes_left, refuse_text, split_pipeline, trees_of
from unbag.tables.schema import Schema
from unbag.tables.sql_expressions import (
    Category,
    Feature,
    Flag,
    Scaled,
    Writer,
    literal,
    total,
)
from unbag.terms.columns import CategoryTerm, NumberTerm, SparseTerm
from unbag.terms.kernel import KernelTerm

# Characters of all expressions together: engines refuse more, or take minutes to parse it.
_LONGEST = 4_000_000


def to_sql(
    model: Any,
    dialect: str,
    *,
    schema: Schema | None = None,
    class_names: Sequence[Any] | None = None,
    output: str = "probability",
) -> dict[str, str]:
    """Write a fitted model as expressions of SQL, equal to its predictions to rounding.

    Parameters
    ----------
    model : estimator or Pipeline
        The mixed model, boosted trees, or an ensemble of these; alone, or in a pipeline of
        `unbag.tables.make_classifier`.
    dialect : {"duckdb", "sqlite", "spark", "postgresql", "bigquery", "snowflake"}
        Of which engine.
    schema : Schema, optional
        Of the table that a model without features of its own was fitted to, where it has truth
        values or times.
    class_names : sequence, optional
        What to call the classes; by default as in ``classes_``.
    output : {"probability", "score"}, default="probability"
        Probabilities, as of ``predict_proba``, or log-odds, as of ``decision_function``; the latter
        need no EXP unless the model has a kernel.

    Returns
    -------
    dict of str to str
        By the name of the output: of two classes one expression, for the second; of more, one for
        each class, with its name. One that has the name of a column gets a ``_`` behind its own.

    Notes
    -----
    Columns have the types of the table that the model was fitted to; NULL, NaN and infinite
    numbers are missing values.

    Examples
    --------
    >>> import pandas as pd
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.tables.sql_export import to_sql
    >>> data = make_gaussian_bags(random_state=0)
    >>> X = pd.DataFrame(data.X[:, :1], columns=["age"])
    >>> model = LLPClassifier(kernel=None).fit(X, data.y)
    >>> sql = to_sql(model, "sqlite")["probability"]
    >>> import sqlite3
    >>> found, = sqlite3.connect(":memory:").execute(f"SELECT {sql} FROM (SELECT 2.5 AS age)")
    >>> bool(abs(found[0] - model.predict_proba(pd.DataFrame({"age": [2.5]}))[0, 1]) < 1e-12)
    True
    """
    if output not in ("probability", "score"):
        raise ValueError(f"output must be 'probability' or 'score', not {output!r}.")
    features, final = split_pipeline(model)
    check_is_fitted(final)
    sql = Writer(dialect)
    table = _Table(sql, features, final, schema)
    names = list(final.classes_ if class_names is None else class_names)
    two = len(names) == 2
    n_outputs = 1 if two else len(names)
    found = {}
    for k in range(n_outputs):
        own = np.eye(n_outputs)[k]
        if output == "score":
            value = _score(final, table, own)
        else:
            against = [-own] if two else [c - own for c in np.delete(np.eye(n_outputs), k, axis=0)]
            others = [sql.exp(_score(final, table, contrast)) for contrast in against]
            value = f"1e0 / (1e0 + {total(others)})"
        name = output if two else f"{output}_{names[k]}"
        while name.casefold() in sql.columns:
            name += "_"
        found[name] = value
    size = sum(map(len, found.values()))
    if size > _LONGEST:
        raise ValueError(
            f"As SQL the model would take {size:,} characters, more than the {_LONGEST:,} that "
            "engines can be given: use an ONNX file, or a smaller model, such as one without a "
            "kernel (--model linear)."
        )
    return found


def select_statement(expressions: dict[str, str], dialect: str, table: str) -> str:
    """Write the query for all columns of a table, such as ``"schema.visits"``, and the expressions."""
    sql = Writer(dialect)
    parts = [f"  {value} AS {sql.name(name)}" for name, value in expressions.items()]
    rows = ".".join(map(sql.name, table.split(".")))
    return "SELECT *,\n" + ",\n".join(parts) + f"\nFROM {rows}"


# --- features -------------------------------------------------------------------------------------


class _Table:
    """What a model is given: features that are numbers, and categories."""

    def __init__(self, sql: Writer, features: Any, model: Any, schema: Schema | None) -> None:
        self.sql = sql
        self.numbers: list[Feature] = []
        self.categories: list[Category] = []
        if features is None:
            self._take_columns(model, {} if schema is None else dict(schema.kinds))
            return
        step = features[-1] if len(features) == 1 else None
        if isinstance(step, MixedFeatures):
            self._take_mixed(step)
        elif isinstance(step, ColumnTransformer):
            self._take_parts(step)
        else:
            raise ValueError(
                "Only features of unbag.tables.make_classifier and make_features can be written as "
                "SQL, not other steps before the model."
            )

    def _take_columns(self, model: Any, kinds: dict[str, Any]) -> None:
        """Columns as they are."""
        function = getattr(model, "function_", None)
        if function is None:
            names = getattr(model, "feature_names_in_", None)
            names = [f"x{i}" for i in range(model.n_features_in_)] if names is None else names
        else:
            names = function.encoder.number_names
            self.categories = [self.sql.category(n, None) for n in function.encoder.category_names]
        self.numbers = [self.sql.column(str(n), kinds.get(str(n), "number")) for n in names]

    def _take_mixed(self, step: MixedFeatures) -> None:
        refuse_text(step.texts_)
        kinds = zip(step.numbers_, step.kinds_, strict=True)
        self.numbers = [self.sql.column(str(name), kind) for name, kind in kinds]
        for name, periods in zip(step.times_, step.periods_, strict=True):
            self.numbers += self._circles(periods, [name])
        self.categories = [
            self.sql.category(str(name), levels)
            for name, levels in zip(step.categories_, step.levels_, strict=True)
        ]

    def _take_parts(self, steps: ColumnTransformer) -> None:
        for name, part, columns in steps.transformers_:
            columns = list(columns)
            if name == "words":
                refuse_text(columns)
            if not columns:
                continue
            if isinstance(part, NumericFeatures):
                self.numbers += self._standardised(part)
            elif isinstance(part, DatetimeFeatures):
                self.numbers += self._circles(part, columns)
            elif name == "categories":
                self.numbers += self._one_hot(part[-1], columns)
            else:
                raise ValueError(f"The step {name!r} before the model cannot be written as SQL.")

    def _standardised(self, step: NumericFeatures) -> list[Feature]:
        names = map(str, step.feature_names_in_)
        pairs = zip(names, step.kinds_, strict=True)
        raws = [self.sql.column(name, kind) for name, kind in pairs]
        round_to = np.dtype(step.dtype).type

        def scaled(i: int) -> Any:
            mean, scale = float(step.means_[i]), float(step.scales_[i])
            return lambda value: float(round_to((value - mean) / scale))

        found: list[Feature] = []
        for i, raw in enumerate(raws):
            fill = float(step.medians_[i])
            filled = f"COALESCE({raw.value}, {literal(fill)})"
            made = f"(({filled} - {literal(step.means_[i])}) / {literal(step.scales_[i])})"
            made = self.sql.single(made) if round_to is np.float32 else made
            found.append(Scaled(made, raw, fill, scaled(i)))
        for j, i in enumerate(step.missing_columns_, len(raws)):
            found.append(Flag(f"{raws[i].value} IS NULL", scaled(j)(1.0), scaled(j)(0.0)))
        return found

    def _circles(self, step: DatetimeFeatures, names: Sequence[Any]) -> list[Feature]:
        """Sine and cosine of the part of a period that has passed."""
        found: list[Feature] = []
        for name, periods in zip(names, step.periods_, strict=True):
            time = self.sql.column(str(name), "time").value
            for length in (literal(PERIODS[part][0]) for part in periods):
                passed = f"({time} - {length} * FLOOR({time} / {length})) / {length}"
                for side in ("SIN", "COS"):
                    value = f"ROUND({side}({literal(2 * np.pi)} * ({passed})), {DIGITS})"
                    value = f"COALESCE({self.sql.dialect.double.format(value)}, 0e0)"
                    found.append(
                        Feature(self.sql.single(value) if step.dtype == "float32" else value)
                    )
        return found

    def _one_hot(self, encoder: Any, names: Sequence[Any]) -> list[Feature]:
        found: list[Feature] = []
        rare = getattr(encoder, "infrequent_categories_", [None] * len(names))
        for name, levels, few in zip(names, encoder.categories_, rare, strict=True):
            column, together = self.sql.category(str(name), None), [] if few is None else list(few)
            own = [[level] for level in levels if level not in set(together)]
            found += [Flag(column.among(texts)) for texts in [*own, together] if texts]
        return found


# --- scores ---------------------------------------------------------------------------------------


def _score(model: Any, table: _Table, contrast: Floats) -> str:
    """Σ_k a_k s_k of the scores s of a model, for a contrast a."""
    if isinstance(model, LLPClassifier):
        return _mixed(model, table, contrast)
    if isinstance(model, LLPBoostingClassifier):
        return _trees(model, table, contrast)
    if isinstance(model, LLPEnsembleClassifier):
        parts = []
        for one, weight in zip(model.estimators_, model.weights_, strict=True):
            moved = literal(float(contrast @ prior_offset(one.class_prior_, model.class_prior_)))
            parts.append(f"{literal(weight)} * ({_score(one, table, contrast)} + {moved})")
        return total(parts)
    raise ValueError(
        f"{type(model).__name__} cannot be written as SQL; the mixed model, boosted trees, and "
        "ensembles of them can."
    )


def _mixed(model: Any, table: _Table, contrast: Floats) -> str:
    f = model.function_
    theta = contrast @ f.theta
    parts = [literal(theta[0] + contrast @ f.offset)]
    for term, place in zip(f.terms, f.columns, strict=True):
        beta = theta[place]
        if isinstance(term, CategoryTerm):
            column = term.place
            levels = f.encoder.levels[column]
            parts.append(table.categories[column].weights(dict(zip(levels, beta, strict=True))))
        elif isinstance(term, NumberTerm):
            parts += _number_term(term, table, beta)
        elif isinstance(term, SparseTerm):
            slopes = beta / term.scale
            pairs = zip(table.numbers, slopes, strict=True)
            parts += [feature.linear(slope, 0.0) for feature, slope in pairs]
        elif isinstance(term, KernelTerm):
            parts += _kernel_term(term, f.encoder.levels, table, beta)
        else:
            raise ValueError(f"The term {term.name!r} cannot be written as SQL.")
    return total(parts)


def _number_term(term: NumberTerm, table: _Table, beta: Floats) -> list[str]:
    places, means, slopes = term.places, term.means, beta / term.scales
    indicators = _indicators(term)
    parts = []
    for i, place in enumerate(places):
        gap = known = 0.0
        if i in indicators:
            j = indicators[i]
            gap, known = (1.0 - means[j]) * slopes[j], -means[j] * slopes[j]
        parts.append(table.numbers[place].linear(slopes[i], means[i], gap, known))
    return parts


def _indicators(term: NumberTerm) -> dict[int, int]:
    """Where the column is that says in which rows another one is missing."""
    n = len(term.places)
    return {int(column): n + i for i, column in enumerate(term.missing_columns)}


def _kernel_term(
    term: KernelTerm, levels: list[list[str]], table: _Table, beta: Floats
) -> list[str]:
    """Σ_l c_l exp(−γ|x − z_l|²) − m, where two categories that differ are at a distance of 2."""
    gamma, weights = term.gamma, term.transform @ beta
    found = [literal(-(term.mean @ beta))]
    for weight, landmark, codes in zip(weights, term.landmarks, term.codes, strict=True):
        parts, start = [], 0
        for one in term.numbers:
            places, means, scales = one.places, one.means, one.scales
            indicators = _indicators(one)
            z = landmark[start : start + len(means)]
            start += len(means)
            for i, place in enumerate(places):
                # a gap is filled by the mean, which is 0 when standardised
                gap, known = gamma * z[i] ** 2, 0.0
                if i in indicators:
                    j = indicators[i]
                    known = gamma * (means[j] / scales[j] + z[j]) ** 2
                    gap += gamma * ((1.0 - means[j]) / scales[j] - z[j]) ** 2
                centre = means[i] + scales[i] * z[i]
                feature = table.numbers[place]
                parts.append(feature.square(gamma / scales[i] ** 2, centre, gap, known))
        for column, own, code in zip(table.categories, levels, codes, strict=True):
            same = column.is_level(own[code])
            parts.append(f"CASE WHEN {same} THEN 0e0 ELSE {literal(2.0 * gamma)} END")
        found.append(f"{literal(weight)} * {table.sql.exp(f'-{total(parts)}')}")
    return found


def _trees(model: Any, table: _Table, contrast: Floats) -> str:
    moved = prior_offset(model.empirical_prior_, model.class_prior_)
    slopes = contrast @ model.start_coef_
    parts = [literal(contrast @ (model.start_intercept_ + moved))]
    for feature, slope, fill in zip(table.numbers, slopes, model.start_fill_, strict=True):
        if slope:
            parts.append(feature.linear(slope, 0.0, gap=slope * fill))
    for i, tree in enumerate(trees_of(model)):
        weight = float(contrast[i % len(contrast)])
        if weight:
            parts.append(_tree(tree, table, weight))
    return total(parts)


def _tree(node: Any, table: _Table, weight: float) -> str:
    if "split_feature" not in node:
        return literal(weight * float(node["leaf_value"]))
    threshold, gap_left = float(node["threshold"]), gap_goes_left(node)
    sides = [_tree(node[side], table, weight) for side in ("left_child", "right_child")]
    return table.numbers[node["split_feature"]].split(threshold, *sides, gap_left)
