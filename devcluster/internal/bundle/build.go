package bundle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/swarm-io/swarm-operator/devcluster"
	"github.com/swarm-io/swarm-operator/devcluster/internal/host"
)

// flags make the program static and a third smaller; they change nothing that runs.
func flags() []string {
	const version = "k8s.io/component-base/version"
	major, minor, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	stamp := fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", version, Version, major, minor)
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", stamp}
}

// Build makes the bundle from the module in source, unless it exists. Progress goes to out.
func (b Bundle) Build(ctx context.Context, source string, out io.Writer) error {
	if b.Built() == nil {
		return nil
	}
	if text, err := os.ReadFile(filepath.Join(source, "go.mod")); err != nil ||
		!bytes.Contains(text, []byte("module "+devcluster.Module+"\n")) {
		return fmt.Errorf("%s is not the devcluster module: name its folder with --source", source)
	}
	waiting := func() { fmt.Fprintln(out, "another process is building Kubernetes; waiting for it") }
	unlock, err := host.Lock(b.folder+".lock", waiting)
	if err != nil {
		return err
	}
	defer unlock()
	if b.Built() == nil {
		return nil // another process built it while this one waited
	}
	if err := b.compile(ctx, source, out); err != nil {
		return err
	}
	b.forget()
	return nil
}

func (b Bundle) compile(ctx context.Context, source string, out io.Writer) error {
	fmt.Fprintf(out, "Building Kubernetes %s from Go modules. This happens once per machine: about 10 minutes on two cores with\n", Version)
	fmt.Fprintf(out, "an empty build cache, under a minute when only the link is missing. The result is kept in %s.\n", b.folder)
	progress, err := survey(ctx, source, out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.Tools(), 0o755); err != nil {
		return fmt.Errorf("make the bundle's folder: %w", err)
	}
	unfinished := b.Kube() + ".unfinished"
	command := golang(ctx, source, append(append([]string{"build", "-v", "-o", unfinished}, flags()...), "./kube")...)
	if err := follow(ctx, command, progress); err != nil {
		return err
	}
	if err := b.pause(ctx, source); err != nil {
		return err
	}
	if err := os.Symlink("../kube", filepath.Join(b.Tools(), "kubectl")); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("name kubectl: %w", err)
	}
	if err := os.Rename(unfinished, b.Kube()); err != nil {
		return fmt.Errorf("put the bundle in place: %w", err)
	}
	return nil
}

// golang runs without cgo: the program then needs nothing of the machine it runs on. With a lazier garbage collector the compiler
// takes an eighth less time, and the same comes out.
func golang(ctx context.Context, source string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = source
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOGC=400")
	return command
}

// follow runs the compiler, which names each package it compiles on its standard error; all its other output there is a complaint.
func follow(ctx context.Context, command *exec.Cmd, progress *progress) error {
	said, err := command.StderrPipe()
	if err != nil {
		return fmt.Errorf("listen to the compiler: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the compiler: %w", err)
	}
	var complaints []string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if !progress.compiled(lines.Text()) {
			complaints = append(complaints, lines.Text())
		}
	}
	err = command.Wait()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: what is compiled so far is kept, run `make build` again to go on")
	case err != nil:
		return fmt.Errorf("build Kubernetes: %w\n%s", err, strings.Join(complaints, "\n"))
	}
	progress.finished()
	return nil
}
