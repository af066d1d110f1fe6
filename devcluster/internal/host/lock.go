package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("held by another process")

// Lock takes the lock that the file at path stands for. The kernel gives it back when this process ends, however it ends. When
// somebody else holds it, waiting is called and then waited for; without waiting the answer is ErrLocked.
func Lock(path string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of lock %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", path, err)
	}
	release := func() { _ = file.Close() }
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		return release, nil
	}
	if waiting == nil {
		release()
		return nil, ErrLocked
	}
	waiting()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		release()
		return nil, fmt.Errorf("wait for lock %s: %w", path, err)
	}
	return release, nil
}
