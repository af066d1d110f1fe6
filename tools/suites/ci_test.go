package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeMake stands for make: it notes what it is called for, and fails for one target.
const fakeMake = "#!/bin/sh\necho \"$@\" >> made\ntest \"$1\" != \"$FAILS\"\n"

// What CI runs is read from .ci/run itself, so that a part can neither drop out nor fail without notice.
func TestO19_CIJobsMakeEveryPartAndFailWithIt(t *testing.T) {
	parts := []string{"build", "verify", "lint", "check", "acceptance"}
	if targets, err := runCI(t, ""); err != nil || !slices.Equal(targets, slices.Sorted(slices.Values(parts))) {
		t.Errorf("made %q, %v, want %q", targets, err, parts)
	}
	for _, part := range parts {
		if targets, err := runCI(t, part); err == nil {
			t.Errorf("make %s failed, and CI passed; made %q", part, targets)
		}
	}
}

// runCI runs .ci/run in a tree of its own and returns the targets that it made, sorted.
func runCI(t *testing.T, failingTarget string) ([]string, error) {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, ".ci", "run"), read(t, "../../.ci/run"))
	command := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "run"))
	command.Env = append(environmentWithScripts(t, map[string]string{"make": fakeMake}), "FAILS="+failingTarget)
	output, err := outputOfProcessTree(t, command)
	t.Logf("make %s fails:\n%s", failingTarget, output)
	made := strings.Fields(read(t, filepath.Join(root, "made")))
	slices.Sort(made)
	return made, err
}

// outputOfProcessTree runs a program and waits until the last process that it has started is gone too: each of them holds the pipe.
func outputOfProcessTree(t *testing.T, command *exec.Cmd) ([]byte, error) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	command.ExtraFiles = []*os.File{writer}
	output, err := command.CombinedOutput()
	if problem := errors.Join(writer.Close(), drain(reader)); problem != nil {
		t.Fatal(problem)
	}
	return output, err
}

func drain(reader io.Reader) error {
	_, err := io.Copy(io.Discard, reader)
	return err
}

// environmentWithScripts is an environment in which some programs are scripts.
func environmentWithScripts(t *testing.T, scripts map[string]string) []string {
	t.Helper()
	folder := t.TempDir()
	for name, script := range scripts {
		write(t, filepath.Join(folder, name), script)
	}
	return append(environmentWithoutMake(), "PATH="+folder+":"+os.Getenv("PATH"))
}

func TestUnknownPartOfTheBenchmarkIsRefused(t *testing.T) {
	command := inRoot(t.Context(), "make", "bench", "PART=typo")
	command.Env = environmentWithScripts(t,
		map[string]string{"go": "#!/bin/sh\necho go was called; exit 1\n"}) // nothing is built or measured first
	output, err := command.CombinedOutput()
	if want := "no part typo: name some of engines devcluster rest tasks"; err == nil || !strings.Contains(string(output), want) {
		t.Errorf("got %v, want %q:\n%s", err, want, output)
	}
}

func TestPartOfTheBenchmarkMayTake20Minutes(t *testing.T) {
	for _, part := range []string{"engines", "devcluster"} {
		command := inRoot(t.Context(), "make", "--old-file=build", "bench", "PART="+part) // nothing is built
		command.Env = environmentWithScripts(t, map[string]string{"go": "#!/bin/sh\n", "timeout": "#!/bin/sh\necho timeout \"$@\"; exit 124\n"})
		output, err := command.CombinedOutput()
		for _, want := range []string{" 20m bin/bench/" + part + " ", "part " + part + " was ended: it took more than 20 minutes"} {
			if err == nil || !strings.Contains(string(output), want) {
				t.Errorf("got %v, want %q:\n%s", err, want, output)
			}
		}
	}
}

func output(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	command := inRoot(t.Context(), name, arguments...)
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(text)
}

// inRoot prepares a program in the root of the repository.
func inRoot(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Env = "../..", environmentWithoutMake()
	return command
}

// environmentWithoutMake is the environment without what a make above this test has put there.
func environmentWithoutMake() []string {
	return slices.DeleteFunc(os.Environ(), func(one string) bool { return strings.HasPrefix(one, "MAKE") || strings.HasPrefix(one, "MFLAGS") })
}
