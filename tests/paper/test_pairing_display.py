"""The display of pairs of bags."""

import numpy as np
import pytest

from unbag import bag_target, check_bag_target
from unbag.datasets import make_gaussian_bags
from unbag.paper import PairingDisplay
from unbag.reports.drawing import draw_svg

DATA = make_gaussian_bags(n_bags=20, bag_size=40, n_features=1, random_state=0)


@pytest.mark.parametrize("name", ["$x_1$", "$\\frac{", "a&b", "<b>", "名前"])
def test_names_are_drawn_as_they_are(name):
    y = bag_target([name, "b", "c", "d"], [0.1, 0.9, 0.4, 0.6])
    svg = draw_svg(PairingDisplay.from_data(y).plot)
    escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"b – {escaped}<" in svg


def test_pairing_numbers_add_up_to_the_information():
    display = PairingDisplay.from_data(DATA.y)
    frame = display.frame()
    n = 2 / (1 / frame["size of positive"] + 1 / frame["size of negative"])
    bags = check_bag_target(DATA.y)
    expected = display.pairing.information(bags.proportions[:, 1], bags.sizes)
    assert np.sum(n * frame["difference"] ** 2) == pytest.approx(expected)
    assert (frame["difference"] > 0).all()


def test_pairing_is_for_two_classes():
    y = make_gaussian_bags(n_bags=6, n_classes=3, random_state=0).y
    with pytest.raises(ValueError, match="two classes and there are 3"):
        PairingDisplay.from_data(y)
