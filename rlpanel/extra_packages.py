"""Command that installs the packages of an extra, for messages about what is missing.

The command names the packages themselves. It works for an rlpanel from an index, a wheel or a clone.
"""

from __future__ import annotations

import re


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages, such as ``pip install "duckdb>=2.0"``.

    Parameters
    ----------
    extra : str
        Name of an extra of rlpanel, as in ``rlpanel[sql]``.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("rlpanel") or []
    except PackageNotFoundError:  # a folder on the path, which was not installed
        lines = []
    of_extra = re.compile(rf"""extra == ["']{re.escape(extra)}["']""")
    packages = [line.partition(";")[0].strip() for line in lines if of_extra.search(line)]
    return "pip install " + " ".join(f'"{name}"' for name in packages or [f"rlpanel[{extra}]"])
