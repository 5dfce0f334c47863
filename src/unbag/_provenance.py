"""Where a figure came from: date, machine and versions, kept with every result."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("unbag", "numpy", "scipy", "scikit-learn")


def provenance() -> dict[str, str]:
    """Date, processor and versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def versions_line(origin: dict[str, str]) -> str:
    """Write the versions alone as one line of text."""
    left_out = ("date", "machine")
    return ", ".join(f"{name} {value}" for name, value in origin.items() if name not in left_out)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
