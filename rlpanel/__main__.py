"""``python -m rlpanel`` is the command ``rlpanel``."""

from rlpanel.cli import main

if __name__ == "__main__":
    main()
