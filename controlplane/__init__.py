"""etcd, kube-apiserver and kube-schedulers on loopback: for tests, benchmarks and the live demo."""
