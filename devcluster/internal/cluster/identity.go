package cluster

import (
	"fmt"
	"net"

	"github.com/swarm-io/swarm-operator/devcluster/internal/pki"
)

// identities are the certificates and kubeconfigs of all clients in the cluster. Each component is a user of its own, so
// that request counts and the audit log show which of them sent a request.
type identities struct {
	authority *pki.Authority
	serving   pki.Pair // of the API servers
	signing   pki.Pair // of service account tokens
	pairs     map[string]pki.Pair
	folder    string
}

// bootstrapper is the only member of system:masters: it binds the others to their roles during `up`, and is not used again.
const bootstrapper = "bootstrapper"

// users by component, except those of the nodes.
var users = map[string]pki.Subject{
	bootstrapper:              {Name: "devcluster:bootstrapper", Groups: []string{"system:masters"}},
	"admin":                   {Name: "devcluster:admin"},
	"kube-apiserver":          {Name: "devcluster:kube-apiserver"},
	"kube-controller-manager": {Name: "system:kube-controller-manager"},
	"kube-scheduler":          {Name: "system:kube-scheduler"},
	"kube-proxy":              {Name: "system:kube-proxy"},
	"kwok":                    {Name: "devcluster:kwok"},
	"coredns":                 {Name: "devcluster:coredns"},
	"provisioner":             {Name: "devcluster:provisioner"},
}

func (c *Cluster) identify() (identities, error) {
	folder := c.path("pki")
	authority, err := pki.New(folder, "devcluster")
	if err != nil {
		return identities{}, err
	}
	who := identities{authority: authority, pairs: map[string]pki.Pair{}, folder: folder}
	if who.serving, err = authority.Issue("serving", c.serving()); err != nil {
		return who, err
	}
	if who.signing, err = authority.SigningKey(); err != nil {
		return who, err
	}
	for name, user := range users {
		if err := who.add(name, user, c.serverFor(name)); err != nil {
			return who, err
		}
	}
	for n := 1; n <= c.Options.RealNodes; n++ {
		if err := who.add(nodeName(n), c.nodeUser(n), c.serverFor("kubelet")); err != nil {
			return who, err
		}
	}
	return who, c.adminKubeconfig(who)
}

// add makes the certificate of a user and the kubeconfig that carries it.
func (w identities) add(name string, user pki.Subject, server pki.Server) error {
	pair, err := w.authority.Issue(name, user)
	if err != nil {
		return err
	}
	w.pairs[name] = pair
	return w.authority.Kubeconfig(w.kubeconfig(name), user.Name, pair, server)
}

func (w identities) kubeconfig(name string) string { return w.folder + "/" + name + ".kubeconfig" }

func (c *Cluster) serving() pki.Subject {
	return pki.Subject{
		Name:      "kube-apiserver",
		DNS:       []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		Addresses: []net.IP{net.IPv4(127, 0, 0, 1), c.Network.Host().AsSlice(), c.Network.API().AsSlice()},
	}
}

// nodeUser is a node to the API server, which lets it see and change only what is its own; the same certificate serves its API.
func (c *Cluster) nodeUser(n int) pki.Subject {
	return pki.Subject{
		Name: "system:node:" + nodeName(n), Groups: []string{"system:nodes"},
		DNS: []string{nodeName(n)}, Addresses: []net.IP{c.Network.Node(n).AsSlice()},
	}
}

// serverFor is the way to the API server from where a component runs.
func (c *Cluster) serverFor(name string) pki.Server {
	url := c.Server()
	if name == "kubelet" || name == "kube-proxy" {
		url = fmt.Sprintf("https://%s:%d", c.Network.Host(), c.Ports.API[0])
	}
	return pki.Server{Context: "devcluster", URL: url}
}

// adminKubeconfig is the user's own; with a second API server it has a context for that one, too.
func (c *Cluster) adminKubeconfig(who identities) error {
	servers := []pki.Server{c.serverFor("admin")}
	if c.Options.APIServers > 1 {
		servers = append(servers, pki.Server{Context: "devcluster-2", URL: loopback(c.Ports.API[1])})
	}
	return who.authority.Kubeconfig(c.Kubeconfig(), users["admin"].Name, who.pairs["admin"], servers...)
}
