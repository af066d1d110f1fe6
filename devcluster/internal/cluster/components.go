package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

// Component is one process of the cluster and its state.
type Component struct {
	Name  string `json:"name"` // node-1/kubelet on a node, plain on the control plane
	State State  `json:"state"`
	PID   int    `json:"pid,omitempty"`

	role       supervise.Role
	own        string // name within its role
	supervisor int
}

// State of a component.
type State string

// The states of a component.
const (
	Running State = "running"
	Paused  State = "paused"
	Killed  State = "killed"   // and held down until it is restarted
	Failing State = "starting" // not there right now, about to be started again
	Ended   State = "ended"    // its supervisor is gone
)

// Components lists every component, in the order in which they start.
func (c *Cluster) Components() ([]Component, error) {
	supervisors, err := supervise.Find(c.Data)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(c.path("roles", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list roles: %w", err)
	}
	slices.Sort(files)
	var all []Component
	for _, file := range files {
		role, err := supervise.Load(c.Data, strings.TrimSuffix(filepath.Base(file), ".json"))
		if err != nil {
			return nil, err
		}
		some, err := c.componentsOf(role, supervisors[role.Name])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (c *Cluster) componentsOf(role supervise.Role, supervisor int) ([]Component, error) {
	running, err := supervise.Running(supervisor, role)
	if err != nil {
		return nil, err
	}
	all := make([]Component, 0, len(role.Components))
	for _, component := range role.Components {
		one := Component{Name: component.Name, own: component.Name, role: role, supervisor: supervisor}
		if role.Node != nil {
			one.Name = role.Name + "/" + component.Name
		}
		process, up := running[component.Name]
		one.PID = process.PID
		switch {
		case supervisor == 0:
			one.State = Ended
		case up && process.Frozen:
			one.State = Paused
		case up:
			one.State = Running
		case role.Held(c.Data, component.Name):
			one.State = Killed
		default:
			one.State = Failing
		}
		all = append(all, one)
	}
	return all, nil
}

// Component finds a component by name. On a single node its short name will do.
func (c *Cluster) Component(name string) (Component, error) {
	all, err := c.Components()
	if err != nil {
		return Component{}, err
	}
	var found []Component
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
		if one.Name == name {
			return one, nil
		}
		if one.own == name {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 0:
		return Component{}, fmt.Errorf("no component %q: name one of %s", name, strings.Join(names, ", "))
	case 1:
		return found[0], nil
	default:
		return Component{}, fmt.Errorf("%q is on several nodes: name one of %s", name, strings.Join(names, ", "))
	}
}

// Log is the file with a component's output; audit has the requests to the first API server.
func (c *Cluster) Log(name string) (string, error) {
	if name == "audit" && c.Options.Audit {
		return c.auditLog(0), nil
	}
	component, err := c.Component(name)
	if err != nil {
		return "", err
	}
	return component.role.Log(c.Data, component.own), nil
}

// Pause freezes a component; it keeps its connections and answers no requests.
func (c *Cluster) Pause(name string) error { return c.signal(name, unix.SIGSTOP) }

// Resume lets a frozen component go on.
func (c *Cluster) Resume(name string) error { return c.signal(name, unix.SIGCONT) }

func (c *Cluster) signal(name string, signal unix.Signal) error {
	component, err := c.Component(name)
	if err != nil {
		return err
	}
	if component.PID == 0 {
		return fmt.Errorf("%s is %s: run `devcluster restart %s` first", component.Name, component.State, component.Name)
	}
	if err := unix.Kill(component.PID, signal); err != nil {
		return fmt.Errorf("signal %s: %w", component.Name, err)
	}
	return nil
}

// Kill ends a component at once and keeps it down until it is restarted.
func (c *Cluster) Kill(name string) error {
	component, err := c.Component(name)
	if err != nil {
		return err
	}
	if err := component.role.Hold(c.Data, component.own); err != nil {
		return err
	}
	return component.end()
}

func (c Component) end() error {
	if c.PID == 0 {
		return nil
	}
	if err := unix.Kill(c.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %s: %w", c.Name, err)
	}
	if !supervise.Gone([]int{c.PID}, letGo) {
		return fmt.Errorf("%s did not end within %s", c.Name, letGo)
	}
	return nil
}

// Restart ends a component, if it runs, and has it started again.
func (c *Cluster) Restart(name string) error {
	component, err := c.Component(name)
	if err != nil {
		return err
	}
	if component.supervisor == 0 {
		return fmt.Errorf("the supervisor of %s is gone: run `devcluster down` and `devcluster up`", component.Name)
	}
	// Held while it ends, so that it comes back at once and not after the rest that a crash earns.
	if err := component.role.Hold(c.Data, component.own); err != nil {
		return err
	}
	if err := component.end(); err != nil {
		return err
	}
	if err := component.role.Release(c.Data, component.own); err != nil {
		return err
	}
	if err := supervise.Look(component.supervisor); err != nil {
		return fmt.Errorf("wake the supervisor of %s: %w", component.Name, err)
	}
	return nil
}
