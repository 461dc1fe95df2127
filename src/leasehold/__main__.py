"""Run the command line as ``python -m leasehold``."""

from leasehold.cli.main import main

if __name__ == "__main__":
    main()
