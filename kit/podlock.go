package kit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// A podLock proves that the earlier processes of a pod have ended. It is a file that outlives containers, but not the pod, and that the kernel keeps
// locked for as long as the process lives. The file holds an id, which is part of the identity of each process that has locked it.
type podLock struct {
	file *os.File // open for as long as the process can act; nil when there is no proof
	id   string
}

// lockPod locks the file in the directory. Without a directory, or while another process has locked it, there is no proof, and no error either:
// this process waits for a Lease to expire as others do.
func lockPod(directory string) (podLock, error) {
	if directory == "" {
		return podLock{}, nil
	}
	file, err := os.OpenFile(filepath.Join(directory, "leader-election"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return podLock{}, fmt.Errorf("election: open the lock file of this pod: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return podLock{}, file.Close()
	} else if err != nil {
		return podLock{}, errors.Join(fmt.Errorf("election: lock %s: %w", file.Name(), err), file.Close())
	}
	id, err := idIn(file)
	if err != nil {
		return podLock{}, errors.Join(fmt.Errorf("election: read the id of this pod: %w", err), file.Close())
	}
	return podLock{file: file, id: id}, nil
}

// idIn returns the id that the file holds. The first process chooses it.
func idIn(file *os.File) (string, error) {
	stored, err := io.ReadAll(file)
	if err != nil || len(stored) > 0 {
		return string(stored), err
	}
	id := string(uuid.NewUUID())
	_, err = file.WriteAt([]byte(id), 0)
	return id, err
}

// identify returns the id of this process, which begins with that of its pod.
func (p podLock) identify() string {
	if p.id == "" {
		return string(uuid.NewUUID())
	}
	return p.id + "." + string(uuid.NewUUID())
}

// hasEnded reports whether a holder of the Lease is proven to have ended.
func (p podLock) hasEnded(holder string) bool {
	return p.id != "" && strings.HasPrefix(holder[strings.LastIndex(holder, "_")+1:], p.id+".")
}

// disown makes the next process of this pod choose another id: it waits until the Lease of this one has expired.
func (p podLock) disown() error {
	if p.file == nil {
		return nil
	}
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("let the next process of this pod wait for the lease: %w", err)
	}
	return nil
}
