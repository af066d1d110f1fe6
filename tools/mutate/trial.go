package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// verdict is the result for a mutant.
type verdict string

const (
	killed     verdict = "killed"
	timedOut   verdict = "timed out"
	survived   verdict = "survived"
	notCovered verdict = "not covered"
)

// isKilled reports whether the tests noticed the mutant. Tests that never end have noticed it, too.
func (v verdict) isKilled() bool { return v == killed || v == timedOut }

const (
	// A mutant may allocate without end; this much address space stops it before the machine suffers (in KiB).
	memoryLimit = 12 << 20
	// Tests of a mutant may take this many times as long as the unmutated ones, plus options.grace.
	timeoutFactor = 4
)

// rapidPath is the library for properties. It writes a file into the source tree when a property fails, after half a minute of shrinking,
// and draws other values in each run, unless flags disable that.
const rapidPath = "pgregory.net/rapid"

// trial runs the tests of one package.
type trial struct {
	tests   goPackage
	seed    uint64
	grace   time.Duration
	timeout time.Duration
}

// baseline measures the unmutated tests, compiled with the mutants, and derives the timeout from that.
func (t *trial) baseline(ctx context.Context, program string) (time.Duration, error) {
	t.timeout = 10 * time.Minute
	began := time.Now()
	found, out, err := t.run(ctx, program, 0)
	if err != nil {
		return 0, err
	}
	if found != survived {
		return 0, fmt.Errorf("tests of %s fail without a mutant:\n%s", t.tests.ImportPath, out)
	}
	took := time.Since(began)
	t.timeout = timeoutFactor*took + t.grace
	return took, nil
}

// run runs a test program with one mutant active.
func (t *trial) run(ctx context.Context, program string, id int) (verdict, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	command := exec.CommandContext(limited, "sh", slices.Concat([]string{"-c", `ulimit -v "$1"; shift; exec "$@"`, "sh",
		strconv.Itoa(memoryLimit), program}, t.flags())...)
	command.Dir = t.tests.Dir
	command.Env = append(os.Environ(), environment+"="+strconv.Itoa(id))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case limited.Err() != nil:
		return timedOut, out, nil
	case err == nil:
		return survived, out, nil
	case exited:
		return killed, out, nil
	}
	return "", nil, fmt.Errorf("run tests of %s: %w", t.tests.ImportPath, err)
}

func (t *trial) flags() []string {
	flags := []string{"-test.failfast", "-test.count=1", "-test.timeout=0"}
	if slices.Contains(slices.Concat(t.tests.TestImports, t.tests.XTestImports), rapidPath) {
		flags = append(flags, "-rapid.nofailfile", "-rapid.shrinktime=1ms", "-rapid.seed="+strconv.FormatUint(t.seed, 10))
	}
	return flags
}
