// Package supervise keeps the processes of one part of a cluster (the control plane, or one node) running.
//
// It is level-based: a component that is not held must run, one that is held is left alone. Holds are files: to kill, freeze
// or restart a component, write its hold and make the supervisor look. Which processes run is never
// written down: the process table is asked. When the supervisor dies, all that it started dies with it.
package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Component is one process that must run.
type Component struct {
	Name string   `json:"name"`
	Path string   `json:"path"` // the program
	Args []string `json:"args"` // with the name it is called by
}

// Role is one supervisor's part of the cluster.
type Role struct {
	Name       string      `json:"name"`
	Node       *Node       `json:"node,omitempty"` // set for a real node, which lives in namespaces of its own
	Components []Component `json:"components"`
}

// Node is what makes a role a machine of its own.
type Node struct {
	Hostname string   `json:"hostname"`
	Keep     []string `json:"keep"`  // folders that the node must see, wherever they lie
	State    string   `json:"state"` // the folder that the node has as its kubelet's
}

func roleFile(data, name string) string { return filepath.Join(data, "roles", name+".json") }

// Save writes the role where its supervisor reads it.
func (r Role) Save(data string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode role %s: %w", r.Name, err)
	}
	if err := os.MkdirAll(filepath.Join(data, "roles"), 0o755); err != nil {
		return fmt.Errorf("make the folder of roles: %w", err)
	}
	if err := os.WriteFile(roleFile(data, r.Name), text, 0o600); err != nil {
		return fmt.Errorf("write role %s: %w", r.Name, err)
	}
	return nil
}

// Load reads one role of the cluster in data.
func Load(data, name string) (Role, error) {
	var role Role
	text, err := os.ReadFile(roleFile(data, name))
	if err != nil {
		return role, fmt.Errorf("read role %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &role); err != nil {
		return role, fmt.Errorf("decode role %s: %w", name, err)
	}
	return role, nil
}

// Log is the file that a component's output goes to.
func (r Role) Log(data, component string) string {
	return filepath.Join(data, "logs", r.Name, component+".log")
}

func (r Role) hold(data, component string) string {
	return filepath.Join(data, "hold", r.Name, component)
}

// Hold keeps a component from being started until it is released.
func (r Role) Hold(data, component string) error {
	path := r.hold(data, component)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of holds: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return fmt.Errorf("hold %s: %w", component, err)
	}
	return nil
}

// Release lets a held component be started; the supervisor must look for this to take effect.
func (r Role) Release(data, component string) error {
	if err := os.Remove(r.hold(data, component)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("release %s: %w", component, err)
	}
	return nil
}

// Held reports whether a component is to stay down.
func (r Role) Held(data, component string) bool {
	_, err := os.Stat(r.hold(data, component))
	return err == nil
}
