"""``python -m unbag``, the same as ``unbag``."""

import sys

from unbag.cli import main

if __name__ == "__main__":
    sys.exit(main())
