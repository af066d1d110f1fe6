package supervise

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Command is the hidden command of this program that a supervisor runs as; it is how supervisors are found again.
const Command = "supervise"

// Process is one running component, as the process table shows it.
type Process struct {
	PID    int
	Frozen bool
}

// Launch starts the supervisor of a role and leaves it behind. It returns the supervisor's process id.
func Launch(data string, role Role) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	logs := filepath.Join(data, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return 0, fmt.Errorf("make the folder of logs: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(logs, role.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	// The supervisor outlives whatever started it.
	command := exec.CommandContext(context.Background(), self, Command, "--data", data, "--role", role.Name)
	command.Stdout, command.Stderr, command.Dir = log, log, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if role.Node != nil {
		command.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("start the supervisor of %s: %w", role.Name, err)
	}
	go command.Wait() //nolint:errcheck // it ends long after this program, except in `run`, where its result is not used
	if !visible(command.Process.Pid, appears) {
		return 0, fmt.Errorf("start the supervisor of %s: process %d does not appear in the process table", role.Name, command.Process.Pid)
	}
	return command.Process.Pid, nil
}

// appears is how long a new process may take on a busy machine until its arguments can be read.
const appears = 30 * time.Second

// visible waits until the arguments of a process can be read, or the process is gone. The kernel reports that a program was started before
// it has put its arguments in place. Until then Find does not know the supervisor, and `down` would leave it behind.
func visible(pid int, within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		process, err := procfs.NewProc(pid)
		if err != nil {
			return true
		}
		if args, err := process.CmdLine(); err != nil || len(args) > 0 || !alive(pid) {
			return true
		}
	}
	return false
}

// Find gives the process ids of the supervisors of the cluster in data, by role.
func Find(data string) (map[string]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	roles, parents := map[int]string{}, map[int]int{}
	for _, process := range all {
		args, err := process.CmdLine()
		if err != nil || len(args) != 6 || !slices.Equal(args[1:5], []string{Command, "--data", data, "--role"}) {
			continue
		}
		if stat, err := process.Stat(); err == nil {
			roles[process.PID], parents[process.PID] = args[5], stat.PPID
		}
	}
	found := map[string]int{}
	for pid, role := range roles {
		// A supervisor that is just starting a component appears twice: its child is still a copy of it.
		if roles[parents[pid]] != role {
			found[role] = pid
		}
	}
	return found, nil
}

// Running gives the components of a role that run below its supervisor, by name.
func Running(supervisor int, role Role) (map[string]Process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	running := map[string]Process{}
	for _, process := range all {
		stat, err := process.Stat()
		if err != nil || stat.PPID != supervisor || stat.State == "Z" {
			continue
		}
		args, _ := process.CmdLine()
		for _, component := range role.Components {
			if slices.Equal(args, component.Args) {
				running[component.Name] = Process{PID: process.PID, Frozen: stat.State == "T"}
			}
		}
	}
	return running, nil
}

// Look signals a supervisor that holds have changed.
func Look(supervisor int) error { return unix.Kill(supervisor, unix.SIGHUP) }

// Gone waits until all of the processes have ended.
func Gone(pids []int, within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(pids, alive) {
			return true
		}
	}
	return false
}

// alive does not count a zombie: its parent has just not looked yet.
func alive(pid int) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := process.Stat()
	return err == nil && stat.State != "Z"
}
