"""`gpu-extender` as in a pod: what is mounted there under /var/run/secrets is read from a folder of a test's.

python -m tests.e2e.incluster FOLDER serve ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from kubernetes.config import incluster_config

from extender.cli import main

if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    incluster_config.SERVICE_TOKEN_FILENAME = str(folder / "token")
    incluster_config.SERVICE_CERT_FILENAME = str(folder / "ca.crt")
    main()
