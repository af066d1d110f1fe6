package supervise

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// again is how long a component that ended by itself stays down, so that one that cannot start does not eat the machine.
const again = time.Second

type supervisor struct {
	data string
	role Role
	pids map[int]string       // running, by process id
	rest map[string]time.Time // ended, not to be started before
}

// Run supervises the role for the life of the process. It returns only when it cannot begin.
func Run(data, name string) error {
	// The kernel ties the death signal of a child to the thread that started it.
	runtime.LockOSThread()
	role, err := Load(data, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(role.Log(data, "any")), 0o755); err != nil {
		return fmt.Errorf("make the folder of logs: %w", err)
	}
	if role.Node != nil {
		if err := enter(*role.Node); err != nil {
			return err
		}
	}
	s := &supervisor{data: data, role: role, pids: map[int]string{}, rest: map[string]time.Time{}}
	s.run()
	return nil
}

func (s *supervisor) run() {
	look := make(chan os.Signal, 16)
	signal.Notify(look, syscall.SIGCHLD, syscall.SIGHUP)
	for {
		s.reap()
		timer := time.NewTimer(s.start(time.Now()))
		select {
		case <-look:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// reap takes every dead child. On a node these are also the orphans of containerd, whose parent the supervisor has become.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if name, ours := s.pids[pid]; ours {
			delete(s.pids, pid)
			s.rest[name] = time.Now().Add(again)
			slog.Info("component ended", "component", name, "pid", pid, "code", status.ExitStatus(), "signal", status.Signal().String())
		}
	}
}

// start starts all that should run and does not, and returns how long there is nothing more to do.
func (s *supervisor) start(now time.Time) time.Duration {
	wait := time.Hour
	for _, component := range s.role.Components {
		switch left := s.rest[component.Name].Sub(now); {
		case s.running(component.Name):
		case s.role.Held(s.data, component.Name):
			delete(s.rest, component.Name) // released, it starts at once
		case left > 0:
			wait = min(wait, left)
		default:
			s.spawn(component)
		}
	}
	return wait
}

func (s *supervisor) running(name string) bool {
	for _, running := range s.pids {
		if running == name {
			return true
		}
	}
	return false
}

func (s *supervisor) spawn(component Component) {
	pid, err := spawn(component, s.role.Log(s.data, component.Name))
	if err != nil {
		slog.Error("start component", "component", component.Name, "error", err)
		s.rest[component.Name] = time.Now().Add(again)
		return
	}
	s.pids[pid] = component.Name
	slog.Info("component started", "component", component.Name, "pid", pid)
}

func spawn(component Component, logFile string) (int, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer null.Close()
	process, err := os.StartProcess(component.Path, component.Args, &os.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []*os.File{null, log, log},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, err
	}
	pid := process.Pid // Release forgets it
	return pid, process.Release()
}
