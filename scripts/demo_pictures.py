"""Draw the demonstration for the site and the README, on light and on dark ground.

Run it with ``python scripts/demo_pictures.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.image import imread, imsave

from unbag.cli.demo import demonstrate

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
# what displays leave to the style; the ground is that of the site's theme
STYLES = {"light": ("white", "#1b1f24"), "dark": ("#14181e", "#e6e8ec")}


def main() -> None:
    """Run it once, draw it twice."""
    result = demonstrate()
    PICTURES.mkdir(exist_ok=True)
    for name, (ground, ink) in STYLES.items():
        inks = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        style = dict.fromkeys(inks, ink) | dict.fromkeys(
            ("figure.facecolor", "axes.facecolor", "savefig.facecolor"), ground
        )
        with mpl.rc_context({**style, "savefig.dpi": 130}):
            result.draw(PICTURES / f"demo-{name}.png")
        cut(PICTURES / f"demo-{name}.png")


def cut(path: Path) -> None:
    """Save the three panels one by one, which a phone shows below each other."""
    pixels = imread(path)
    width = pixels.shape[1]
    ink = np.flatnonzero((pixels != pixels[:1, :1]).any(axis=(0, 2)))
    gaps, middles = np.diff(ink), (ink[1:] + ink[:-1]) // 2
    near = [np.abs(middles - third * width / 3) < width / 15 for third in (1, 2)]
    cuts = [int(middles[(gaps * close).argmax()]) for close in near]
    for number, part in enumerate(np.split(pixels, cuts, axis=1), start=1):
        imsave(path.with_stem(f"{path.stem}-{number}"), part)


if __name__ == "__main__":
    main()
