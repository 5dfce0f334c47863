"""The paper of Scott and Zhang as a whole: its method, theory, comparisons and experiments.

*Learning from Label Proportions: A Mutual Contamination Framework*, NeurIPS 2020.

- `LMMCMClassifier` and `LMMCMClassifierCV` are its Algorithm 1, from pairs or least squares
  (`bag_weights`, `pair_bags`) and the corrected risk; the best pairs of bags of
  unequal size need rustworkx, which comes with ``pip install 'unbag[paper]'``;
- `unbag.paper.bounds` its generalisation bounds, and how many bags they require;
- `InvCalClassifier`, `AlternatingSVMClassifier` and `ProportionRiskClassifier` are the methods it
  compares with;
- `Setting` and `make_trial` are the bags of its experiments, which ``unbag paper`` runs.
"""

from unbag.paper.alternating_svm import AlternatingSVMClassifier
from unbag.paper.experiments import Setting, make_trial
from unbag.paper.invcal import InvCalClassifier
from unbag.paper.lmmcm import LMMCMClassifier, LMMCMClassifierCV
from unbag.paper.proportion_risk import ProportionRiskClassifier
from unbag.paper.weights import bag_weights, pair_bags

__all__ = [
    "AlternatingSVMClassifier",
    "InvCalClassifier",
    "LMMCMClassifier",
    "LMMCMClassifierCV",
    "ProportionRiskClassifier",
    "Setting",
    "bag_weights",
    "make_trial",
    "pair_bags",
]
