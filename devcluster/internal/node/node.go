// Package node describes one real node: the files its programs read, and the programs with their arguments.
package node

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/swarm-io/swarm-operator/devcluster/internal/pki"
	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

//go:embed files
var files embed.FS

// Spec is all that one node must know.
type Spec struct {
	Name       string
	Folder     string   // everything the node keeps lies below it
	Keep       []string // folders that it must see
	Address    netip.Addr
	Pods       netip.Prefix // its own
	AllPods    netip.Prefix
	DNS        netip.Addr
	Cgroup     string
	Plugins    string // folder of CNI plugins
	Pause      string // image that holds a pod's namespaces
	Kube       string // the program with all components
	Containerd string // the program
	CA         string
	Serving    pki.Pair
	Kubelet    string // kubeconfig
	Proxy      string // kubeconfig
	Labels     map[string]string
}

// Write makes the node's folder and configuration files.
func (s Spec) Write() error {
	for _, folder := range []string{"cni", "kubelet", "volume-plugins", "pod-logs"} {
		if err := os.MkdirAll(filepath.Join(s.Folder, folder), 0o755); err != nil {
			return fmt.Errorf("make the folders of %s: %w", s.Name, err)
		}
	}
	templates, err := template.ParseFS(files, "files/*")
	if err != nil {
		return fmt.Errorf("read the node's templates: %w", err)
	}
	for name, path := range map[string]string{
		"containerd.toml": "containerd.toml",
		"kubelet.yaml":    "kubelet.yaml",
		"cni.conflist":    "cni/10-devcluster.conflist",
	} {
		var text bytes.Buffer
		if err := templates.ExecuteTemplate(&text, name, s); err != nil {
			return fmt.Errorf("fill in %s: %w", name, err)
		}
		if err := s.write(path, text.String()); err != nil {
			return err
		}
	}
	return s.write("resolv.conf", fmt.Sprintf("nameserver %s\n", s.DNS))
}

func (s Spec) write(path, text string) error {
	if err := os.WriteFile(filepath.Join(s.Folder, path), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write %s of %s: %w", path, s.Name, err)
	}
	return nil
}

// Role is the node's programs, in the order in which they start.
func (s Spec) Role() supervise.Role {
	return supervise.Role{
		Name: s.Name,
		Node: &supervise.Node{Hostname: s.Name, Keep: s.Keep, State: filepath.Join(s.Folder, "kubelet")},
		Components: []supervise.Component{
			{Name: "containerd", Path: s.Containerd, Args: []string{"containerd", "--config", filepath.Join(s.Folder, "containerd.toml")}},
			{Name: "kubelet", Path: s.Kube, Args: []string{
				"kubelet",
				"--config=" + filepath.Join(s.Folder, "kubelet.yaml"),
				"--kubeconfig=" + s.Kubelet,
				"--hostname-override=" + s.Name,
				"--node-ip=" + s.Address.String(),
				"--node-labels=" + labels(s.Labels),
			}},
			{Name: "kube-proxy", Path: s.Kube, Args: []string{
				"kube-proxy",
				"--kubeconfig=" + s.Proxy,
				"--hostname-override=" + s.Name,
				"--proxy-mode=nftables",
				"--cluster-cidr=" + s.AllPods.String(),
				// The limit belongs to the whole machine and cannot be set from a network namespace.
				"--conntrack-max-per-core=0",
				"--healthz-bind-address=127.0.0.1:10256",
			}},
		},
	}
}

// Socket is where the node's container runtime listens, seen from the host through the node's first process.
func Socket(pid int) string { return fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", pid) }

func labels(set map[string]string) string {
	var pairs []string
	for _, key := range sorted(set) {
		pairs = append(pairs, key+"="+set[key])
	}
	return strings.Join(pairs, ",")
}

func sorted(set map[string]string) []string { return slices.Sorted(maps.Keys(set)) }
