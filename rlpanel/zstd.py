"""The zstd module of Python 3.14; on older Pythons its backport."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:
    from compression import zstd

__all__ = ["zstd"]
