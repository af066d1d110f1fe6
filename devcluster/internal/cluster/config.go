// Package cluster brings a whole development cluster up, inspects it, and removes it without a trace.
//
// The whole state of a cluster is in its data folder and in the process table. Nothing else is remembered, so every command works after
// a crash of any other: `down` after a killed `up` removes exactly what is there.
package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarm-io/swarm-operator/devcluster/internal/network"
)

// Options are what the user of `up` may choose.
type Options struct {
	RealNodes      int  `json:"realNodes"`
	SimulatedNodes int  `json:"simulatedNodes"`
	APIServers     int  `json:"apiServers"`
	Port           int  `json:"port"` // of the first API server; 0: any free one
	Audit          bool `json:"audit"`
	Fsync          bool `json:"fsync"`
}

// Cluster is a cluster as its data folder describes it.
type Cluster struct {
	Data    string       `json:"data"`
	Options Options      `json:"options"`
	Network network.Plan `json:"network"`
	Ports   Ports        `json:"ports"`
	Kube    string       `json:"kube"` // the program with all components
}

// Ports on the loopback.
type Ports struct {
	Etcd     int   `json:"etcd"`
	EtcdPeer int   `json:"etcdPeer"`
	EtcdLink int   `json:"etcdLink"` // the pausable way of the second API server to etcd
	API      []int `json:"api"`
}

// ErrNone means that there is no cluster in the data folder.
var ErrNone = errors.New("no cluster")

func file(data string) string { return filepath.Join(data, "cluster.json") }

// Open reads the cluster in data.
func Open(data string) (*Cluster, error) {
	text, err := os.ReadFile(file(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: run `devcluster up`", ErrNone, data)
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster's file: %w", err)
	}
	cluster := &Cluster{}
	if err := json.Unmarshal(text, cluster); err != nil {
		return nil, fmt.Errorf("decode %s: %w: remove the folder by hand if it is not a cluster's", file(data), err)
	}
	return cluster, nil
}

func (c *Cluster) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's file: %w", err)
	}
	if err := os.WriteFile(file(c.Data), text, 0o600); err != nil {
		return fmt.Errorf("write the cluster's file: %w", err)
	}
	return nil
}

// Described reports whether `up` came far enough for the other commands to know what they are dealing with.
func (c *Cluster) Described() bool { return len(c.Ports.API) > 0 }

// Kubeconfig is the file by which the user reaches the cluster.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// Server is where the first API server listens.
func (c *Cluster) Server() string { return loopback(c.Ports.API[0]) }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.Data}, elements...)...)
}

// id distinguishes the clusters of one machine. It follows from the data folder, so that what a crash left can be found.
func id(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:4])
}

// cgroup is the control group that holds every pod of the cluster.
func cgroup(data string) string { return "/devcluster-" + id(data) }

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

func loopback(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }
