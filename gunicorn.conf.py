"""Settings for ``GPU_EXTENDER_CLUSTER=cluster.json gunicorn -c gunicorn.conf.py``; `gpu-extender serve` uses the same.

One worker process, because each would have a cache of its own; threads; connections kept alive for longer than the
90 s after which Go's client drops an idle one; no restart after so many requests.
"""

import os

from extender.serving import gunicorn_settings
from extender.wsgi import config_of

_server = config_of(os.environ).server
globals().update(gunicorn_settings(_server))

wsgi_app = "extender.wsgi:from_environment()"
worker_class = "gthread"
bind = [_server.listen]
