"""``python -m unbag_bench`` is ``unbag-bench``."""

import sys

from unbag_bench.cli import main

sys.exit(main())
