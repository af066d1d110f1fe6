package agent

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/swarm-io/swarm-operator/internal/process/nonblocking"
)

// Work that cannot be stopped may run elsewhere by now. Only the end of the process ends it.
func TestAbortEndsTheProcess(t *testing.T) {
	if os.Getenv("ABORT_IN_TEST") != "" {
		logs := nonblocking.NewQueue(1<<10, nil)
		Config{}.abort("the lease is over", logs)
		return
	}
	program := exec.Command(os.Args[0], "-test.run=^TestAbortEndsTheProcess$")
	program.Env = append(os.Environ(), "ABORT_IN_TEST=1")
	err := program.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 70 {
		t.Errorf("got %v, want exit status 70", err)
	}
}

func TestAbortCanBeReplaced(t *testing.T) {
	told, logs := "", nonblocking.NewQueue(1<<10, nil)
	if (Config{Abort: func(reason string) { told = reason }}).abort("the lease is over", logs); told != "the lease is over" {
		t.Errorf("told %q", told)
	}
}
