"""The descriptor of the kind of hosts `k8s`: running pods of a Kubernetes cluster."""

from paceline.hosts.base import HostKind

DESCRIPTOR = HostKind(
    summary="running pods of a Kubernetes cluster, chosen by a label selector and reached by kubectl exec",
    provider="paceline.hosts.k8s.hosts:K8sHosts",
    argument="SELECTOR,namespace=NAME,…",
    needs="kubectl",
    has_links=True,
)
