package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// compile builds a service's main package into a static binary and returns its bytes.
func compile(ctx context.Context, root string, service Service, platform string, stamp Stamp) ([]byte, error) {
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(folder)

	binary := filepath.Join(folder, service.Name)
	// -trimpath and -buildvcs=false: where the clone lies, and git's state beyond the stamp, must not change a byte. See the Makefile for the
	// tags.
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace,nomsgpack", "-ldflags", stamp.ldflags(), "-o", binary}
	environment := targetEnvironment(platform)
	if stamp.Race {
		arguments = append(arguments, "-race") // the detector is C
		environment = append(environment, "CGO_ENABLED=1")
	}
	command := exec.CommandContext(ctx, "go", append(arguments, service.Package)...)
	command.Dir = filepath.Join(root, service.Module)
	command.Env = append(os.Environ(), environment...)
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", service.Name, platform, err, out)
	}
	return os.ReadFile(binary)
}

// targetEnvironment pins every variable that changes the compiler's output, whatever the caller's shell sets.
func targetEnvironment(platform string) []string {
	system, architecture, _ := strings.Cut(platform, "/")
	return []string{
		"GOOS=" + system, "GOARCH=" + architecture, "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off",
	}
}
