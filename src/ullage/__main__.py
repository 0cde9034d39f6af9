"""`python -m ullage` is the command `ullage`, for those who have it only as a module."""

import sys

from ullage.cli import main

if __name__ == "__main__":
    sys.exit(main())
