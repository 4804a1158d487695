"""``python -m extender`` is the command ``gpu-extender``."""

import sys

try:
    from extender.cli import main
except KeyboardInterrupt:  # loading the libraries takes most of a second
    sys.exit(130)

if __name__ == "__main__":
    main()
