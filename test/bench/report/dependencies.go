package report

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Dependencies returns the folders, relative to the root of the module, of some packages and of everything in the module that
// they import. It must be called at the root of the module.
func Dependencies(ctx context.Context, packages ...string) ([]string, error) {
	arguments := []string{"list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}} {{.Path}}{{end}}{{end}}"}
	for _, one := range packages {
		arguments = append(arguments, "./"+one)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	list, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s depend on: %w: %s", strings.Join(packages, ", "), err, complaint.Bytes())
	}
	var folders []string
	for line := range strings.Lines(string(list)) {
		if path, module, found := strings.Cut(strings.TrimSpace(line), " "); found {
			folders = append(folders, strings.TrimPrefix(path, module+"/"))
		}
	}
	return folders, nil
}
