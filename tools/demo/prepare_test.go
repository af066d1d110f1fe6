package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The scripts stand for the programs that a preparation runs. Each notes its arguments, and fails when FAILS is among them.
const (
	noteCall = "#!/bin/sh\necho \"$(basename $0) $@\" >> $CALLS\ncase \" $@ \" in *\" $FAILS \"*) exit 2;; esac\n"

	fakeDevcluster = noteCall + `case $1 in
status) test -e $RUNNING || exit 1; printf 'data        d\nkubeconfig  /d/kubeconfig\nnodes       1\n\nNAME\n';;
down) echo down; rm $RUNNING;;
esac
`
	fakeMake = noteCall + `case $2 in
up) touch $RUNNING;;
install) printf 'building the programs\nbin/images/a.tar sha256:1\nswarms serverside-applied\nrolled out\n\nNext:\n  kubectl apply\n';;
esac
`
)

// A fakeMachine has the programs that a preparation runs, as scripts.
type fakeMachine struct {
	host
	out   *strings.Builder
	calls string // the file with the calls
}

func newFakeMachine(t *testing.T, isRunning bool, fails string) fakeMachine {
	t.Helper()
	root, out := t.TempDir(), &strings.Builder{}
	machine := fakeMachine{host: host{root: root, out: out}, out: out, calls: filepath.Join(root, "calls")}
	running := filepath.Join(root, "running")
	for name, script := range map[string]string{
		"bin/devcluster": fakeDevcluster, "path/make": fakeMake, "path/go": noteCall + "test -e ../bin && echo noise\n", "tools/go.mod": "",
	} {
		write(t, filepath.Join(root, name), script)
	}
	if isRunning {
		write(t, running, "")
	}
	t.Setenv("PATH", filepath.Join(root, "path")+":"+os.Getenv("PATH"))
	t.Setenv("CALLS", machine.calls)
	t.Setenv("RUNNING", running)
	t.Setenv("FAILS", fails)
	return machine
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o755)); err != nil {
		t.Fatal(err)
	}
}

func (m fakeMachine) madeCalls(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(m.calls)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

func TestPreparationBringsUpWhatIsMissing(t *testing.T) {
	const status, up = "devcluster status", "make --no-print-directory up"
	install := func(kubeconfig string) string {
		return "make --no-print-directory install KUBECONFIG=" + kubeconfig + " VERSION=v9"
	}
	image := "go run ./image --version v9 --platforms linux/" + runtime.GOARCH + " --services swarm-research"
	for reason, c := range map[string]struct {
		isRunning bool
		named     options
		want      []string
	}{
		"nothing is there":             {false, options{}, []string{status, up, status, install("/d/kubeconfig"), image}},
		"the development cluster runs": {true, options{}, []string{status, install("/d/kubeconfig"), image}},
		"a cluster of the user":        {false, options{kubeconfig: "/k"}, []string{install("/k"), image}},
		"an image of the user":         {false, options{kubeconfig: "/k", image: "i"}, []string{install("/k")}},
	} {
		t.Run(reason, func(t *testing.T) {
			machine := newFakeMachine(t, c.isRunning, "")
			c.named.version = "v9"
			kubeconfig, err := machine.prepare(t.Context(), c.named)
			if err != nil || !strings.Contains(strings.Join(c.want, "\n"), "KUBECONFIG="+kubeconfig+" ") {
				t.Errorf("kubeconfig %q: %v", kubeconfig, err)
			}
			if got := machine.madeCalls(t); !slices.Equal(got, c.want) {
				t.Errorf("called %q, want %q", got, c.want)
			}
			if got, want := machine.out.String(), "building the programs\nrolled out\n"; got != want {
				t.Errorf("printed %q, want %q", got, want)
			}
		})
	}
}

func TestPreparationEndsWithTheFirstFailure(t *testing.T) {
	for fails, want := range map[string]string{
		"up":      "run make --no-print-directory up: exit status 2",
		"install": "install the operator: exit status 2",
		"./image": "--services swarm-research: exit status 2",
	} {
		machine := newFakeMachine(t, false, fails)
		if _, err := machine.prepare(t.Context(), options{version: "v9"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s fails: got %v, want %q", fails, err, want)
		}
		if calls := machine.madeCalls(t); !strings.Contains(calls[len(calls)-1], fails) {
			t.Errorf("%s fails, and then: %q", fails, calls)
		}
	}
}

// newPipe returns the name of a pipe: its reader waits for its writer, and the other way around.
func newPipe(t *testing.T, folder, name string) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A program that is killed while it brings a cluster up would leave half of one behind.
func TestInterruptedPreparationWaitsForItsProgram(t *testing.T) {
	machine := newFakeMachine(t, false, "")
	started, interrupted := newPipe(t, machine.root, "started"), newPipe(t, machine.root, "interrupted")
	write(t, filepath.Join(machine.root, "path", "make"), noteCall+"echo > started; read line < interrupted; echo cleaned up\n")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(started)
		cancel()
		_ = os.WriteFile(interrupted, []byte("now\n"), 0o600)
	}()
	if _, err := machine.prepare(ctx, options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := machine.out.String(); got != "cleaned up\n" {
		t.Errorf("printed %q", got)
	}
}

func TestRemoveTakesTheDevelopmentClusterDown(t *testing.T) {
	machine := newFakeMachine(t, true, "")
	if err := removeDemo(t.Context(), machine.host, options{root: machine.root}); err != nil {
		t.Fatal(err)
	}
	if calls := machine.madeCalls(t); !slices.Equal(calls, []string{"devcluster down"}) || machine.out.String() != "down\n" {
		t.Errorf("called %q, printed %q", calls, machine.out)
	}
}

func TestStatusWithoutKubeconfigIsAnError(t *testing.T) {
	if path, err := kubeconfigIn("data  d\n"); err == nil {
		t.Errorf("got %q", path)
	}
}
