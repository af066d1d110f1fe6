package kit

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// A PodLock proves that the earlier processes of a pod have ended.
type PodLock interface {
	// ID is the ID of all processes that have ever had the lock; all but this one have ended. It is "" when nothing is proven.
	ID() string
	// ResetID gives the next process another ID.
	ResetID() error
}

// A podProcesses is what this process knows about earlier processes of its pod.
type podProcesses struct {
	lock PodLock // may be nil
}

// id returns what the processes of this pod have in common, "" when that is not known.
func (p podProcesses) id() string {
	if p.lock == nil {
		return ""
	}
	return p.lock.ID()
}

// newProcessID returns a fresh id, which begins with that of the pod.
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

// resetID lets the next process of this pod wait until the Lease of this one has expired.
func (p podProcesses) resetID() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.ResetID()
}
