package main

import (
	"io"
	"os/exec"
	"testing"
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
	if err := process.Suspend(); err != nil || !standsStill(process.command.Process.Pid) {
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

func TestAKilledProcessIsDead(t *testing.T) {
	process := sleeper(t)
	if err := process.Suspend(); err != nil {
		t.Fatal(err)
	}
	process.Kill()
	if standsStill(process.command.Process.Pid) {
		t.Error("it stands still")
	}
	if err := process.Suspend(); err == nil {
		t.Error("a dead process was suspended")
	}
}
