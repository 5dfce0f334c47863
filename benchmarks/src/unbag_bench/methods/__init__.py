"""Published methods that only comparisons need, behind the interface of unbag's estimators."""

from unbag_bench.methods.clusters import ClusterClassifier
from unbag_bench.methods.em import EMClassifier
from unbag_bench.methods.published import PublishedClassifierCV
from unbag_bench.methods.published_methods import PUBLISHED
from unbag_bench.methods.soft_label import SoftLabelClassifier, SoftLabelClassifierCV

__all__ = [
    "PUBLISHED",
    "ClusterClassifier",
    "EMClassifier",
    "PublishedClassifierCV",
    "SoftLabelClassifier",
    "SoftLabelClassifierCV",
]
