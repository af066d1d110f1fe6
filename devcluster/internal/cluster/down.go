package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarm-io/swarm-operator/devcluster/internal/host"
	"github.com/swarm-io/swarm-operator/devcluster/internal/network"
	"github.com/swarm-io/swarm-operator/devcluster/internal/supervise"
)

// letGo is how long the kernel may take to end killed processes and empty control groups.
const letGo = 30 * time.Second

// Down ends the cluster in data and removes every trace of it. Nothing is asked to stop: a throw-away cluster has nothing to save,
// and an API server would take a minute. Down of a cluster that is not there is no error.
func Down(data string) error {
	release, err := alone(data)
	if err != nil {
		return err
	}
	defer release()
	if err := endProcesses(data); err != nil {
		return err
	}
	if host.Root() {
		if err := network.Remove(id(data)); err != nil {
			return err
		}
		if err := host.RemoveCgroup(cgroup(data), letGo); err != nil {
			return err
		}
	}
	if _, err := Open(data); errors.Is(err, ErrNone) {
		_ = os.Remove(data) // an `up` that was killed may have left it empty; with files in it, it is not a cluster's, and stays
		return nil
	}
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("remove the data folder: %w", err)
	}
	return nil
}

// endProcesses kills the supervisors. The kernel kills everything below them: on a node the whole process namespace, elsewhere by
// the death signal.
func endProcesses(data string) error {
	supervisors, err := supervise.Find(data)
	if err != nil {
		return err
	}
	var pids []int
	for name, pid := range supervisors {
		pids = append(pids, pid)
		if role, err := supervise.Load(data, name); err == nil {
			pids = append(pids, children(pid, role)...)
		}
	}
	for _, pid := range supervisors {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end supervisor %d: %w", pid, err)
		}
	}
	if !supervise.Gone(pids, letGo) {
		slices.Sort(pids)
		return fmt.Errorf("some of the processes %v did not end within %s: run `devcluster down` again", pids, letGo)
	}
	return nil
}

func children(supervisor int, role supervise.Role) []int {
	running, err := supervise.Running(supervisor, role)
	if err != nil {
		return nil
	}
	var pids []int
	for _, process := range running {
		pids = append(pids, process.PID)
	}
	return pids
}
