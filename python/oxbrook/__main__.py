"""`python -m oxbrook` is the `oxbrook` command."""

import sys

from oxbrook._cli import main

if __name__ == "__main__":
    sys.exit(main())
