"""The same models on Dask collections.

Rows of a bag are brought together on one worker where they are not; workers then sum what their
bags contribute, by the code for rows in memory, and the sums are all that travels.
"""

from unbag.distributed.classifier import DistributedClassifier
from unbag.distributed.frames import bags_from_frame

__all__ = ["DistributedClassifier", "bags_from_frame"]
