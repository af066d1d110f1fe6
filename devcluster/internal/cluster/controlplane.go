package cluster

import (
	"fmt"
	"os"

	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

const (
	controlPlane = "control-plane"
	apiserver    = "kube-apiserver"
	// apiLink leads from the pod network to the API server, which itself listens on the loopback only. Frozen, it parts all
	// nodes and pods from the API.
	apiLink = "api-link"
	// etcdLink leads from the second API server to etcd. Frozen, it parts that one from the truth.
	etcdLink = "etcd-link"
	// provisionerName is what the storage class calls its provisioner.
	provisionerName = "swarm.io/devcluster-folders"
)

// controlPlaneRole lists the components of the control plane, in the order in which they start.
func (c *Cluster) controlPlaneRole(who identities) (supervise.Role, error) {
	self, err := os.Executable()
	if err != nil {
		return supervise.Role{}, fmt.Errorf("find this program: %w", err)
	}
	role := supervise.Role{Name: controlPlane}
	add := func(name, path string, args ...string) {
		role.Components = append(role.Components, supervise.Component{Name: name, Path: path, Args: args})
	}
	add("etcd", c.Kube, c.etcd()...)
	add(apiserver, c.Kube, c.apiserver(0, c.Ports.Etcd, who)...)
	if c.Options.APIServers > 1 {
		add(etcdLink, self, "devcluster", "relay", "--listen", address(c.Ports.EtcdLink), "--to", address(c.Ports.Etcd))
		add(apiserver+"-2", c.Kube, append(c.apiserver(1, c.Ports.EtcdLink, who), "--endpoint-reconciler-type=none")...)
	}
	add("kube-controller-manager", c.Kube, c.controllerManager(who)...)
	add("kube-scheduler", c.Kube, "kube-scheduler", "--kubeconfig="+who.kubeconfig("kube-scheduler"),
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
	if c.Options.SimulatedNodes > 0 {
		// Without leases a simulated node counts as lost every 50 s, and kwok never gives its pods their readiness back.
		add("kwok", c.Kube, "kwok", "--kubeconfig="+who.kubeconfig("kwok"), "--config="+c.path("kwok.yaml"), "--node-lease-duration-seconds=40",
			"--manage-nodes-with-annotation-selector="+simulated+"=fake", "--cidr="+c.Network.SimulatedPods().String())
	}
	if c.Options.RealNodes > 0 {
		host := fmt.Sprintf("%s:%d", c.Network.Host(), c.Ports.API[0])
		add(apiLink, self, "devcluster", "relay", "--listen", host, "--to", address(c.Ports.API[0]))
		add("coredns", c.Kube, "coredns", "-conf", c.path("Corefile"))
		add("provisioner", c.Kube, "provisioner", "--kubeconfig="+who.kubeconfig("provisioner"),
			"--volumes="+c.path("volumes"), "--name="+provisionerName)
	}
	return role, nil
}

func (c *Cluster) etcd() []string {
	client, peer := insecure(c.Ports.Etcd), insecure(c.Ports.EtcdPeer)
	args := []string{
		"etcd", "--name=devcluster", "--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=devcluster=" + peer,
		"--quota-backend-bytes=8589934592", "--auto-compaction-retention=5m",
	}
	if !c.Options.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func (c *Cluster) apiserver(n, etcd int, who identities) []string {
	args := []string{
		"kube-apiserver",
		"--etcd-servers=" + insecure(etcd),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.Ports.API[n]),
		"--advertise-address=" + c.Network.Host().String(),
		"--tls-cert-file=" + who.serving.Cert, "--tls-private-key-file=" + who.serving.Key,
		"--client-ca-file=" + who.authority.CA(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + who.signing.Key, "--service-account-signing-key-file=" + who.signing.Key,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=" + c.Network.Services().String(),
		"--allow-privileged=true",
		"--kubelet-certificate-authority=" + who.authority.CA(),
		"--kubelet-client-certificate=" + who.pairs["kube-apiserver"].Cert, "--kubelet-client-key=" + who.pairs["kube-apiserver"].Key,
		"--kubelet-preferred-address-types=InternalIP",
	}
	if c.Options.Audit {
		args = append(args, "--audit-policy-file="+c.path("audit-policy.yaml"), fmt.Sprintf("--audit-log-path=%s", c.auditLog(n)))
	}
	return args
}

func (c *Cluster) controllerManager(who identities) []string {
	return []string{
		"kube-controller-manager", "--kubeconfig=" + who.kubeconfig("kube-controller-manager"),
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + who.signing.Key,
		"--root-ca-file=" + who.authority.CA(),
		"--cluster-signing-cert-file=" + who.authority.CA(), "--cluster-signing-key-file=" + c.path("pki", "ca.key"),
	}
}

func (c *Cluster) auditLog(n int) string {
	return c.path("logs", controlPlane, fmt.Sprintf("audit-%d.log", n+1))
}

func insecure(port int) string { return "http://" + address(port) }
func address(port int) string  { return fmt.Sprintf("127.0.0.1:%d", port) }
