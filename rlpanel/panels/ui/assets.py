"""Reads the scripts and style sheets that are shipped with the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def read_assets(*paths: str) -> str:
    """Read shipped text files and join them by line breaks.

    Parameters
    ----------
    *paths : str
        Paths below the package, such as ``panels/tables/data_table.css``. Scripts that are read together
        form one JavaScript module; the last one exports ``render``.

    Raises
    ------
    FileNotFoundError
        If the package has no such file.
    """
    package = files("rlpanel")
    return "\n".join(package.joinpath(path).read_text("utf-8") for path in paths)
