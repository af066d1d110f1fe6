// Command crds finishes the CRDs that controller-gen wrote, in place.
//
// It promises that each file comes out the same whatever its formatting was, that nothing below a pod template carries
// a description or a bound, that every quantity of ours has a longest form, and that no CRD passes the size at which
// client-side apply breaks. It never changes what a valid object looks like.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// maxBytes keeps the CRD, as YAML and as the JSON that kubectl stores in an annotation, below the limit of 256 KiB for
// all annotations together.
const maxBytes = 250_000

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crds FOLDER")
		os.Exit(2)
	}
	if err := finishAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func finishAll(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list %q: %w", folder, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRD in %q: run controller-gen first", folder)
	}
	for _, file := range files {
		if err := finishFile(file); err != nil {
			return fmt.Errorf("finish %q: %w", file, err)
		}
	}
	return nil
}

func finishFile(file string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := finish(before)
	if err != nil {
		return err
	}
	return os.WriteFile(file, after, 0o644)
}

// finish turns one CRD as controller-gen wrote it into the one we ship.
func finish(before []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(before, &crd); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	for _, schema := range schemas(crd) {
		trim(schema)
	}
	after, err := yaml.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	if len(after) > maxBytes {
		return nil, fmt.Errorf("%d bytes, more than the %d that client-side apply can carry", len(after), maxBytes)
	}
	return append([]byte("---\n"), after...), nil
}

// schemas are the roots of the OpenAPI schemas of all versions.
func schemas(crd map[string]any) []map[string]any {
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	var roots []map[string]any
	for _, version := range versions {
		holder, _ := version.(map[string]any)["schema"].(map[string]any)
		if root, ok := holder["openAPIV3Schema"].(map[string]any); ok {
			roots = append(roots, root)
		}
	}
	return roots
}
