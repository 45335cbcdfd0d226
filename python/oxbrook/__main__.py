"""`python -m oxbrook` is the `oxbrook` command."""

from oxbrook._cli import main

if __name__ == "__main__":
    main()
