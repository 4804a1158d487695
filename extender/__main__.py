"""``python -m extender`` is the command ``gpu-extender``."""

from extender.cli import main

if __name__ == "__main__":
    main()
