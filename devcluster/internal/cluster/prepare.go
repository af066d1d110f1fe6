package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarm-io/swarm-operator/devcluster/internal/bundle"
	"github.com/swarm-io/swarm-operator/devcluster/internal/host"
	"github.com/swarm-io/swarm-operator/devcluster/internal/network"
	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

// check refuses what cannot work, before anything is made.
func check(data string, options Options) (bundle.Bundle, error) {
	kubernetes, err := bundle.Locate()
	if err != nil {
		return kubernetes, err
	}
	checks := []func() error{options.check, kubernetes.Built, func() error { return plain(data) }, func() error { return vacant(data) }}
	if options.RealNodes > 0 {
		checks = append(checks, host.Tools)
	}
	if options.Port != 0 {
		checks = append(checks, func() error { return host.PortFree(options.Port) })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return kubernetes, err
		}
	}
	return kubernetes, nil
}

func (o Options) check() error {
	switch {
	case o.RealNodes < 0 || o.RealNodes > network.MostNodes:
		return fmt.Errorf("--real-nodes is %d: choose 0 to %d", o.RealNodes, network.MostNodes)
	case o.SimulatedNodes < 0 || o.SimulatedNodes > 5000:
		return fmt.Errorf("--simulated-nodes is %d: choose 0 to 5000", o.SimulatedNodes)
	case o.APIServers < 1 || o.APIServers > 2:
		return fmt.Errorf("--apiservers is %d: choose 1 or 2", o.APIServers)
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("--port is %d: choose 1 to 65535, or leave it out", o.Port)
	case o.RealNodes > 0 && !host.Root():
		return errors.New("real nodes need root: run it with sudo, or use --simulated-nodes")
	}
	return nil
}

// plain refuses paths that the configuration files of some component could not hold.
func plain(data string) error {
	if strings.ContainsAny(data, "\"\\{}$,\n\t") {
		return fmt.Errorf("%q has a character in it that not every component takes in a path: name another folder with --data", data)
	}
	return nil
}

// vacant checks that a new cluster may be made in data.
func vacant(data string) error {
	if _, err := Open(data); err == nil {
		running, err := supervise.Find(data)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			return fmt.Errorf("a cluster is already running in %s: use it, run `devcluster down` first, or name another folder with --data", data)
		}
		return fmt.Errorf("%s holds a cluster that is no longer running: run `devcluster down --data %s` to clear it", data, data)
	} else if !errors.Is(err, ErrNone) {
		return err
	}
	entries, err := os.ReadDir(data)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and holds no cluster: name another folder with --data", data)
	}
	return nil
}

// prepare makes the data folder, first marks it as a cluster's, and claims ports and addresses.
func prepare(data string, options Options, kubernetes bundle.Bundle) (*Cluster, error) {
	c := &Cluster{Data: data, Options: options, Kube: kubernetes.Kube(), Network: network.Unclaimed()}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	if err := host.Disk(data); err != nil {
		_ = os.Remove(data) // only if it is empty
		return nil, err
	}
	if err := c.save(); err != nil {
		return nil, err
	}
	if err := c.claimPorts(); err != nil {
		return c, err
	}
	if err := c.claimAddresses(); err != nil {
		return c, err
	}
	return c, c.save()
}

func (c *Cluster) claimPorts() error {
	ports, err := host.FreePorts(5, c.Options.Port)
	if err != nil {
		return err
	}
	if c.Options.Port != 0 {
		ports[3] = c.Options.Port
	}
	c.Ports = Ports{Etcd: ports[0], EtcdPeer: ports[1], EtcdLink: ports[2], API: ports[3:5]}
	return nil
}

func (c *Cluster) claimAddresses() error {
	if !host.Root() {
		return nil
	}
	cache, err := bundle.Cache()
	if err != nil {
		return err
	}
	unlock, err := host.Lock(filepath.Join(cache, "addresses.lock"), func() {})
	if err != nil {
		return err
	}
	defer unlock()
	c.Network, err = network.Claim(id(c.Data), c.Options.RealNodes)
	return err
}
