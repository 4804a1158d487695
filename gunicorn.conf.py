"""Settings for ``GPU_EXTENDER_CLUSTER=cluster.json gunicorn -c gunicorn.conf.py``; `gpu-extender serve` uses the same.

One worker process, because each would have a cache of its own (so no SIGTTIN); threads; connections kept alive for
longer than the 90 s after which Go's client drops an idle one; no restart after so many requests. SIGHUP reads
configuration and cluster anew, and forgets what was bound.
"""

import os

from extender.config import load_config
from extender.packing.policies import REGISTRY
from extender.serving import gunicorn_settings

_server = load_config(None, env=os.environ, overrides={}, known_policies=REGISTRY).server
globals().update(gunicorn_settings(_server))

wsgi_app = "extender.wsgi:from_environment()"
bind = [_server.listen]
