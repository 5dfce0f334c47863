"""The command line: ``unbag``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from unbag import __version__

_EXAMPLES = """examples:
  unbag demo                                  the paper's setting on the MAGIC data set
  unbag demo --dataset adult --bag-size 512   larger bags, other data
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code (0 done, 1 failed, 2 called wrongly)."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except (ValueError, MemoryError, ModuleNotFoundError, OSError) as error:
        print(f"unbag: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("unbag: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="unbag",
        description="Learn to classify single instances from the class proportions of bags.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unbag {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="train from proportions on a shipped data set and compare with the hidden labels",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--dataset", choices=["magic", "adult"], default="magic", help="data set")
    demo.add_argument("--bag-size", type=int, default=128, help="instances in each bag")
    demo.add_argument(
        "--proportions",
        type=float,
        nargs=2,
        default=[0.0, 0.5],
        metavar=("LOW", "HIGH"),
        help="range from which the bags' proportions are drawn",
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of the random bags")
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("unbag-demo.png"), help="picture to write"
    )
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    missing = [name for name in ("pandas", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"the demo needs {' and '.join(missing)}; install with: pip install 'unbag[demo]'"
        )
    if not options.output.absolute().parent.is_dir():
        raise OSError(f"the folder of {str(options.output)!r} does not exist")
    from unbag.demo import draw_demo, run_demo
    from unbag.paper import Setting
    from unbag.paper.trials import N_INSTANCES

    if not 2 <= options.bag_size <= N_INSTANCES[options.dataset] // 4:
        raise ValueError(
            f"--bag-size must lie between 2 and {N_INSTANCES[options.dataset] // 4}, "
            f"not be {options.bag_size}"
        )
    setting = Setting(options.dataset, tuple(options.proportions), options.bag_size)
    low, high = setting.proportions
    print(
        f"{setting.dataset.upper()}: {setting.n_bags} bags of {setting.bag_size} instances, "
        f"proportions drawn from [{low:g}, {high:g}]."
    )
    print("The classifier sees instances and bag proportions, and no label.", flush=True)
    result = run_demo(setting, options.seed, verbose=1)
    print(f"\nFitted 5 folds and 11 penalties in {result.seconds:.1f} s; ", end="")
    print(f"chosen penalty {result.model.alpha_:.2g}.\n")
    head = ("", "from bags alone", "true, same scores", "true, new instances")
    print(f"{head[0]:26}{head[1]:>17}{head[2]:>20}{head[3]:>21}")
    for name, estimate, truth, new in result.table():
        print(f"{name:26}{estimate:17.3f}{truth:20.3f}{new:21.3f}")
    draw_demo(result, options.output)
    print(f"\nPicture: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
