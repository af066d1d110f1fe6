// Package podlock proves that the earlier processes of a pod have ended. It locks a file that outlives containers, but not the pod;
// the kernel keeps the lock for as long as the process lives. The file holds an id, which all processes that have locked it share.
package podlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// A Lock is held until the process ends.
type Lock struct {
	file *os.File // nil when there is no proof
	id   string
}

// Acquire locks the file in the directory. Without a directory, or while another process holds the lock, there is no proof, and no error
// either: this process waits for a Lease to expire, as those of other pods do.
func Acquire(directory string) (*Lock, error) {
	if directory == "" {
		return &Lock{}, nil
	}
	file, err := os.OpenFile(filepath.Join(directory, "leader-election"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file of this pod: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return &Lock{}, file.Close()
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	id, err := readOrCreateID(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the id of this pod: %w", err), file.Close())
	}
	return &Lock{file: file, id: id}, nil
}

// readOrCreateID returns the id that the file holds. The first process chooses it.
func readOrCreateID(file *os.File) (string, error) {
	stored, err := io.ReadAll(file)
	if err != nil || len(stored) > 0 {
		return string(stored), err
	}
	id := string(uuid.NewUUID())
	_, err = file.WriteAt([]byte(id), 0)
	return id, err
}

// ID implements kit.PodLock.
func (l *Lock) ID() string { return l.id }

// ResetID implements kit.PodLock.
func (l *Lock) ResetID() error {
	if l.file == nil {
		return nil
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("remove the id of this pod: %w", err)
	}
	return nil
}
