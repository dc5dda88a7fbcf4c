"""``python -m rlpanel`` is the command ``rlpanel``."""

import sys

if __name__ == "__main__":
    # Python puts the working folder first. A file that somebody left there must not pass for a library.
    if not sys.flags.safe_path:
        del sys.path[0]
    from rlpanel.cli import main

    main()
