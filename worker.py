"""The production worker: `python worker.py [--queue NAME ...]`, settings from the environment."""

import sys

from runtime.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "worker")
    main()
