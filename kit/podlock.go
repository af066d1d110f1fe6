package kit

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// A PodLock proves that the earlier processes of a pod have ended.
type PodLock interface {
	// ID returns the ID that all processes share that have ever had the lock. All but this one have ended. It returns "" when nothing is
	// proven.
	ID() string
	// ResetID gives the next process another ID.
	ResetID() error
}

// podProcesses is what this process knows about earlier processes of its pod.
type podProcesses struct {
	lock PodLock // may be nil
}

// id returns the ID that the processes of this pod share, "" when it is unknown.
func (p podProcesses) id() string {
	if p.lock == nil {
		return ""
	}
	return p.lock.ID()
}

// newProcessID returns a fresh ID that begins with the ID of the pod.
func (p podProcesses) newProcessID() string {
	if p.id() == "" {
		return string(uuid.NewUUID())
	}
	return p.id() + "." + string(uuid.NewUUID())
}

// hasEnded reports whether another holder of the Lease is proven to have ended.
func (p podProcesses) hasEnded(holder string) bool {
	return p.id() != "" && strings.HasPrefix(holder[strings.LastIndex(holder, "_")+1:], p.id()+".")
}

// resetID makes the next process of this pod wait until the Lease of this one has expired.
func (p podProcesses) resetID() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.ResetID()
}
