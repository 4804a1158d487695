"""Everything that knows the Kubernetes API: its objects, and (later) its server."""
