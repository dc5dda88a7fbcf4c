"""Runs the command ``rlpanel`` for ``python -m rlpanel``."""

import sys

if __name__ == "__main__":
    # Python puts the working folder first on its path: a file in it could shadow a library.
    if not sys.flags.safe_path:
        del sys.path[0]
    from rlpanel.cli import main

    main()
