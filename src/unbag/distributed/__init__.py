"""Large data in Dask collections: the same classifiers, trained where the instances are.

The driver sees one entry per bag and no instance; workers sum what instances add to losses and
gradients, and the sums are all that travels.
"""

from unbag.distributed.boosted import DistributedBoostedClassifier
from unbag.distributed.classifier import DistributedClassifier
from unbag.distributed.evaluation import evaluate
from unbag.distributed.frames import bags_from_frame

__all__ = ["DistributedBoostedClassifier", "DistributedClassifier", "bags_from_frame", "evaluate"]
