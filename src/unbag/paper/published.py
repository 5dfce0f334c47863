"""What the paper reports: mean and deviation of the test AUC over five trials.

Keys are table, data set, range of the proportions and method; values follow `BAG_SIZES`.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A figure of the paper's tables."""

    mean: float
    deviation: float


BAG_SIZES = (8, 32, 128, 512)

# One deviation, .7828 in the second table, repeats the mean of the row above and is a slip.
_ROWS: dict[tuple[int, str, tuple[float, float], str], str] = {
    (1, "adult", (0.0, 0.5), "invcal"): ".8720 .0035 .8672 .0067 .8537 .0101 .7256 .0159",
    (1, "adult", (0.0, 0.5), "alter-psvm"): ".8586 .0185 .7394 .0686 .7260 .0953 .6876 .1219",
    (1, "adult", (0.0, 0.5), "lmmcm"): ".8728 .0019 .8693 .0047 .8669 .0041 .8674 .0040",
    (1, "adult", (0.5, 1.0), "invcal"): ".8680 .0021 .8598 .0073 .8284 .0093 .7480 .0500",
    (1, "adult", (0.5, 1.0), "alter-psvm"): ".8587 .0097 .7429 .1473 .8204 .0318 .7602 .1215",
    (1, "adult", (0.5, 1.0), "lmmcm"): ".8584 .0164 .8644 .0052 .8601 .0045 .8500 .0186",
    (1, "magic", (0.0, 0.5), "invcal"): ".8918 .0076 .8574 .0079 .8295 .0139 .8133 .0109",
    (1, "magic", (0.0, 0.5), "alter-psvm"): ".8701 .0026 .7704 .0818 .7753 .0207 .6851 .1580",
    (1, "magic", (0.0, 0.5), "lmmcm"): ".8909 .0077 .8799 .0113 .8753 .0157 .8734 .0092",
    (1, "magic", (0.5, 1.0), "invcal"): ".8936 .0066 .8612 .0056 .8180 .0092 .8215 .0136",
    (1, "magic", (0.5, 1.0), "alter-psvm"): ".8689 .0135 .8219 .0218 .8179 .0487 .7949 .0478",
    (1, "magic", (0.5, 1.0), "lmmcm"): ".8911 .0083 .8790 .0091 .8684 .0046 .8567 .0292",
    (2, "adult", (0.0, 0.5), "invcal"): ".6427 .0922 .6545 .0643 .6518 .0139 .7230 .0253",
    (2, "adult", (0.0, 0.5), "alter-psvm"): ".6525 .0817 .5959 .1145 .6199 .1267 .6419 .0997",
    (2, "adult", (0.0, 0.5), "lmmcm"): ".7299 .0796 .7765 .0590 .8329 .0166 .8456 .0213",
    (2, "adult", (0.5, 1.0), "invcal"): ".5973 .0740 .6634 .0864 .6408 .0216 .7218 .0170",
    (2, "adult", (0.5, 1.0), "alter-psvm"): ".6035 .1626 .7774 .0443 .5863 .2775 .7106 .2193",
    (2, "adult", (0.5, 1.0), "lmmcm"): ".7228 .1048 .7674 .0586 .8428 .0101 .8588 .0091",
    (2, "magic", (0.0, 0.5), "invcal"): ".7381 .0439 .7828 .0212 .7936 .0371 .8196 .0231",
    (2, "magic", (0.0, 0.5), "alter-psvm"): ".5997 .1163 .5376 .1671 .6859 .0371 .7193 .1278",
    (2, "magic", (0.0, 0.5), "lmmcm"): ".7180 .0450 .7852 .7828 .8140 .0463 .8630 .0275",
    (2, "magic", (0.5, 1.0), "invcal"): ".6741 .0673 .7405 .0433 .7876 .0249 .8135 .0132",
    (2, "magic", (0.5, 1.0), "alter-psvm"): ".6589 .1029 .6330 .1254 .6790 .1072 .7965 .0708",
    (2, "magic", (0.5, 1.0), "lmmcm"): ".6807 .0779 .7639 .0335 .7905 .0258 .8491 .0245",
}


def published_auc(
    table: int, dataset: str, proportions: tuple[float, float], bag_size: int, method: str
) -> Published | None:
    """Look up the paper's figure for a setting; None if it reports none.

    Parameters
    ----------
    table : {1, 2}
        Table of the paper.
    dataset : {"adult", "magic"}
        Data set.
    proportions : (low, high)
        Range of the true proportions.
    bag_size : int
        Instances in a bag.
    method : str
        A name in `unbag.paper.METHODS`.

    Returns
    -------
    figure : Published or None
        With ``mean`` and ``deviation``.

    Examples
    --------
    >>> from unbag.paper import published_auc
    >>> published_auc(1, "magic", (0.0, 0.5), 128, "lmmcm")
    Published(mean=0.8753, deviation=0.0157)
    """
    row = _ROWS.get((table, dataset, proportions, method))
    if row is None or bag_size not in BAG_SIZES:
        return None
    numbers = [float(number) for number in row.split()]
    place = 2 * BAG_SIZES.index(bag_size)
    return Published(numbers[place], numbers[place + 1])
