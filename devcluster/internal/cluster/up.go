package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/swarm-io/swarm-operator/devcluster/internal/bundle"
	"github.com/swarm-io/swarm-operator/devcluster/internal/host"
	"github.com/swarm-io/swarm-operator/devcluster/internal/node"
	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

// patience is how long a step of `up` may take on a slow and busy machine before it counts as failed.
const patience = 2 * time.Minute

// Say reports progress to the user.
type Say func(format string, args ...any)

// Up makes a cluster in data and returns when it is ready for use. What a failed or cancelled Up leaves, Down removes.
func Up(ctx context.Context, data string, options Options, say Say) (*Cluster, error) {
	release, err := alone(data)
	if err != nil {
		return nil, err
	}
	defer release()
	kubernetes, err := check(data, options)
	if err != nil {
		return nil, err
	}
	kubernetes.Used()
	began := time.Now()
	reached := func(what string) { say("%5.1f s  %s", time.Since(began).Seconds(), what) }
	c, err := prepare(data, options, kubernetes)
	if err != nil {
		return c, err
	}
	return c, c.start(ctx, kubernetes, reached)
}

// start brings up, in this order: what the API server needs and the nodes' runtimes, then, when the API answers, all the rest.
func (c *Cluster) start(ctx context.Context, kubernetes bundle.Bundle, reached func(string)) error {
	who, err := c.identify()
	if err != nil {
		return err
	}
	if err := c.configure(who); err != nil {
		return err
	}
	if err := c.launchControlPlane(who); err != nil {
		return err
	}
	if err := c.launchNodes(ctx, who, kubernetes); err != nil {
		return err
	}
	if err := c.awaitAPI(ctx); err != nil {
		return err
	}
	reached("the API server answers")
	if err := c.bootstrap(ctx, who); err != nil {
		return err
	}
	if err := c.releaseAll(); err != nil {
		return err
	}
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	reached(c.summary())
	return nil
}

func (c *Cluster) summary() string {
	parts := []string{"the control plane runs"}
	if c.Options.RealNodes > 0 {
		parts = append(parts, count(c.Options.RealNodes, "real"))
	}
	if c.Options.SimulatedNodes > 0 {
		parts = append(parts, count(c.Options.SimulatedNodes, "simulated"))
	}
	return strings.Join(parts, ", ")
}

func count(nodes int, kind string) string {
	if nodes == 1 {
		return "1 " + kind + " node Ready"
	}
	return fmt.Sprintf("%d %s nodes Ready", nodes, kind)
}

// launch starts the supervisor of a role with all but the early components held.
func (c *Cluster) launch(role supervise.Role, early ...string) (int, error) {
	if err := role.Save(c.Data); err != nil {
		return 0, err
	}
	for _, component := range role.Components {
		if slices.Contains(early, component.Name) {
			continue
		}
		if err := role.Hold(c.Data, component.Name); err != nil {
			return 0, err
		}
	}
	return supervise.Launch(c.Data, role)
}

func (c *Cluster) launchControlPlane(who identities) error {
	role, err := c.controlPlaneRole(who)
	if err != nil {
		return err
	}
	_, err = c.launch(role, "etcd", etcdLink, apiserver, apiserver+"-2", apiLink)
	return err
}

func (c *Cluster) launchNodes(ctx context.Context, who identities, kubernetes bundle.Bundle) error {
	for n := 1; n <= c.Options.RealNodes; n++ {
		if err := c.launchNode(ctx, n, who, kubernetes); err != nil {
			return fmt.Errorf("start %s: %w", nodeName(n), err)
		}
	}
	return nil
}

func (c *Cluster) launchNode(ctx context.Context, n int, who identities, kubernetes bundle.Bundle) error {
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return fmt.Errorf("find containerd: %w", err)
	}
	name := nodeName(n)
	spec := node.Spec{
		Name: name, Folder: c.path(name), Keep: []string{c.Data, filepath.Dir(c.Kube)}, Cgroup: cgroup(c.Data) + "/" + name,
		Address: c.Network.Node(n), Pods: c.Network.NodePods(n), AllPods: c.Network.Pods(), DNS: c.Network.DNS(),
		Plugins: host.CNI(), Pause: bundle.PauseImage, Kube: c.Kube, Containerd: containerd,
		CA: who.authority.CA(), Serving: who.pairs[name], Kubelet: who.kubeconfig(name), Proxy: who.kubeconfig("kube-proxy"),
		Labels: labels(n),
	}
	if err := spec.Write(); err != nil {
		return err
	}
	if err := host.MakeCgroup(spec.Cgroup); err != nil {
		return err
	}
	pid, err := c.launch(spec.Role(), "containerd")
	if err != nil {
		return err
	}
	if err := c.Network.Attach(pid, n, c.Options.RealNodes); err != nil {
		return err
	}
	return load(ctx, pid, kubernetes.Pause())
}

// releaseAll lets everything start that was held for the API server.
func (c *Cluster) releaseAll() error {
	supervisors, err := supervise.Find(c.Data)
	if err != nil {
		return err
	}
	for name, pid := range supervisors {
		role, err := supervise.Load(c.Data, name)
		if err != nil {
			return err
		}
		for _, component := range role.Components {
			if err := role.Release(c.Data, component.Name); err != nil {
				return err
			}
		}
		if err := supervise.Look(pid); err != nil {
			return fmt.Errorf("wake the supervisor of %s: %w", name, err)
		}
	}
	return nil
}

// alone keeps two commands from working on one cluster at the same time.
func alone(data string) (release func(), err error) {
	release, err = host.Take(id(data))
	if errors.Is(err, host.ErrTaken) {
		return nil, fmt.Errorf("another devcluster command is working on %s: wait for it or stop it", data)
	}
	return release, err
}
