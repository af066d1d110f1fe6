package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func sleeper(t *testing.T) *Process {
	t.Helper()
	process, err := startProcess(exec.CommandContext(t.Context(), "sleep", "1000"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	return process
}

func TestASuspendedProcessStandsStill(t *testing.T) {
	process := sleeper(t)
	if err := process.Suspend(); err != nil || !isStopped(process.command.Process.Pid) {
		t.Fatalf("it does not stand still: %v", err)
	}
	if process.Suspend() == nil {
		t.Error("it was suspended twice")
	}
	order := ""
	process.Resume(func() { order += "resumed" })
	process.Resume(func() { order += " again" })
	if order != "resumed" {
		t.Errorf("got %q", order)
	}
}

// The programs of an agent stand still with it, as in a container that is frozen, and go on with it.
func TestProgramsAreSuspendedWithTheirAgent(t *testing.T) {
	output, err := os.Create(filepath.Join(t.TempDir(), "output")) // a pipe would be open for as long as the program runs
	if err != nil {
		t.Fatal(err)
	}
	process, err := startProcess(exec.CommandContext(t.Context(), "sh", "-c", "setsid sleep 1000 & wait"), output)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	programs := func() []int { return programsOf(process.command.Process.Pid) }
	await(t, "the program is started", func() bool { return len(programs()) == 1 })
	program := programs()[0]
	t.Cleanup(func() { signalGroups([]int{program}, syscall.SIGKILL) })
	if err := process.Suspend(); err != nil {
		t.Fatal(err)
	}
	await(t, "the program stands still", func() bool { return isStopped(program) })
	process.Resume(func() {})
	await(t, "the program goes on", func() bool { return !isStopped(program) })
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("not so: %s", what)
		}
	}
}

func TestAKilledProcessIsDead(t *testing.T) {
	process := sleeper(t)
	if err := process.Suspend(); err != nil {
		t.Fatal(err)
	}
	process.Kill()
	if isStopped(process.command.Process.Pid) {
		t.Error("it stands still")
	}
	if err := process.Suspend(); err == nil {
		t.Error("a dead process was suspended")
	}
}
