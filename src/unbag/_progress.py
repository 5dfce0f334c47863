"""Progress bars, for people who watch: on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def progress_bar(steps: Any = None, *, verbose: Any = True, **how: Any) -> tqdm:
    """Make a bar of tqdm, over ``steps`` or to be moved; it shows if ``verbose`` is not 0.

    What is piped into a file or another program has no bars in it.
    """
    shown = verbose and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    return tqdm(steps, disable=not shown, **how)
