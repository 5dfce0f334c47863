"""``unbag export``: a model file as an ONNX graph, to be run anywhere."""

from __future__ import annotations

import argparse
from typing import Any

from unbag._files import check_place
from unbag.cli.models import add_model, class_names, open_model
from unbag.cli.options import add_json, file_place
from unbag.cli.output import need, show, show_json
from unbag.cli.parser import add_parser
from unbag.tables.onnx_export import export_onnx, read_signature
from unbag.tables.scoring import rule_of

_EXAMPLES = """examples:
  unbag export model.unbag -o model.onnx
  unbag export model.unbag -o model.onnx --json       names and types of inputs and outputs
"""


def add_command(commands: Any) -> None:
    """Add ``unbag export``."""
    parser = add_parser(
        commands,
        "export",
        "MODEL -o FILE [options]",
        description="Write a linear, kernel or boosted model, with the features that it makes of "
        "its columns, as an\nONNX file, which runs without Python. Every column is an input of "
        "shape (rows, 1):\n\n"
        "  numbers      double, NaN where they are missing\n"
        "  true, false  double, 1 and 0\n"
        "  times        double, seconds since 1970 (UTC)\n"
        "  the rest     text, empty where it is missing\n\n"
        "Outputs are class, score and probability, as 'unbag predict' has them; probability has a "
        "column\nfor each class.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    add = parser.add_argument
    add("-o", "--output", required=True, type=file_place, metavar="FILE", help="ONNX file to write")
    add_json(parser)
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Load, convert and write."""
    need("pandas", "skops", extra="files")
    need("onnx", "skl2onnx", extra="export")
    check_place(options.output)
    model, schema, found = open_model(options)
    names = class_names(found, model.classes_)
    rule = rule_of(found, None, names)
    path = export_onnx(
        model,
        options.output,
        schema=schema,
        class_names=names,
        score_threshold=0.0 if rule is None else rule.score_threshold,
    )
    signature = read_signature(path)
    if options.json:
        show_json({"output": str(path), **signature})
        return 0
    lines = [f"{path} takes and gives:"]
    for what, variables in signature.items():
        lines += [f"  {what[:-1]:6}  {v['type']:6}  {v['name']}" for v in variables]
    show("\n".join(lines))
    return 0
