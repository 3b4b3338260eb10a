"""``python -m tertium`` is the command ``tertium``."""

from tertium.cli import main

if __name__ == "__main__":
    main()
