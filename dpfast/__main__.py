"""``python -m dpfast``: the command line."""

import sys

from dpfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
