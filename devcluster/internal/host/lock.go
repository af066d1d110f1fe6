package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrTaken means that another process has the name.
var ErrTaken = errors.New("taken by another process")

// Take takes a name on this machine, if it is free. The kernel gives it back when this process ends, however it ends, and
// no file is left: the name is that of a socket without connections.
func Take(name string) (release func(), err error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@devcluster-" + name})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("take the name %s: %w", name, err)
	}
	return func() { _ = listener.Close() }, nil
}

// Lock takes the lock that the file at path stands for. When another process has it, waiting is called, and Lock waits.
func Lock(path string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of lock %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", path, err)
	}
	unlock = func() { _ = file.Close() }
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		return unlock, nil
	}
	waiting()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		unlock()
		return nil, fmt.Errorf("wait for lock %s: %w", path, err)
	}
	return unlock, nil
}
