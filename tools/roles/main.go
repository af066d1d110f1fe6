// Command roles turns the roles of an operator for a whole cluster into those of one that is confined to namespaces.
//
// It promises that every right is one that controller-gen wrote, that none is lost but those that excludedRights names with a reason, and
// that the same input gives the same bytes. It never grants anything: bindings are written by hand.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: roles FILE FOLDER")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes the roles that belong into a folder of kustomize.
func generate(from, folder string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	roles, err := namespacedRolesFrom(text)
	if err != nil {
		return fmt.Errorf("confine roles of %q: %w", from, err)
	}
	for path, role := range map[string]role{
		filepath.Join("rights", "role.yaml"): roles.clusterWide, "home.yaml": roles.operatorNamespace,
		filepath.Join("cluster", "tenant.yaml"): roles.tenant,
	} {
		if err := write(filepath.Join(folder, path), role); err != nil {
			return fmt.Errorf("write %q: %w", path, err)
		}
	}
	return nil
}
