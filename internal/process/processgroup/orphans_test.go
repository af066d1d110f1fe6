//go:build linux

package processgroup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// zombieChildren returns the children of this process that have ended and were not reaped.
func zombieChildren(t *testing.T) (pids []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	mine := fmt.Sprintf(") Z %d ", os.Getpid())
	for _, name := range stats {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), mine) {
			pids = append(pids, string(text))
		}
	}
	return pids
}

// F24: descendants that leave the group of their program become children of this process when their parents end.
func TestOrphansAreReaped(t *testing.T) {
	ReapOrphans()
	never := make(chan struct{})
	for range 20 {
		var orphan bytes.Buffer
		program := exec.CommandContext(t.Context(), "bash", "-c", `setsid sleep 0.1 >/dev/null 2>&1 </dev/null & echo $!; exit 0`)
		program.Stdout = &orphan
		if _, err := Run(program, never, never); err != nil {
			t.Fatal(err)
		}
		if orphan.Len() == 0 {
			t.Fatal("there is no orphan")
		}
	}
	limit := time.After(20 * time.Second)
	for ticker := time.NewTicker(20 * time.Millisecond); len(zombieChildren(t)) > 0 || hasChildren(t); {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("zombies are left: %q", zombieChildren(t))
		}
	}
}

// hasChildren reports whether this process has children: all of them are orphans.
func hasChildren(t *testing.T) bool {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range children {
		if text, err := os.ReadFile(name); err == nil && len(bytes.TrimSpace(text)) > 0 {
			return true
		}
	}
	return false
}

// The exit status of a program belongs to the caller that runs it, however many end at once.
func TestNoExitStatusIsStolen(t *testing.T) {
	ReapOrphans()
	never := make(chan struct{})
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			code := n % 100
			state, err := Run(exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("(setsid true &) ; exit %d", code)), never, never)
			if err != nil || state.ExitCode() != code {
				t.Errorf("program %d ended with %v, %v", n, state, err)
			}
		})
	}
	all.Wait()
}
