package plan

import (
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

const (
	// MaxNumber is larger than any number that a pool reaches, and the maximum that the API accepts in a status.
	MaxNumber = 1 << 53
	// MaxStatusNumber is the limit for the status, unless a stored revision has the number. It is lower, so that a pool that continues from
	// the highest number there can still store the next ones.
	MaxStatusNumber = 1 << 52
)

// IsPlausible reports whether a pool may have reached a number. Any user who may write to a status, a ConfigMap, a ControllerRevision or a
// pod of the pool can store any number there, and numbers never decrease.
func IsPlausible(number int64) bool { return number >= 0 && number < MaxNumber }

// sanitizeNumber sets a number to 0 if it is not believed, and reports whether it was.
func sanitizeNumber(number *int64) bool {
	if IsPlausible(*number) {
		return true
	}
	*number = 0
	return false
}

// sanitizeFile sets the versions that are not believed to 0, and reports whether all of them were believed.
func sanitizeFile(file *codec.File, ledger codec.Ledger) bool {
	plausible := sanitizeNumber(&file.Version)
	for n := range file.Workers {
		plausible = sanitizeNumber(&file.Workers[n].Version) && plausible
	}
	for _, entry := range ledger {
		for n := range entry.Earlier {
			plausible = sanitizeNumber(&entry.Earlier[n].Version) && plausible
		}
	}
	return plausible
}

// SanitizeRevision is sanitizeFile for a revision.
func SanitizeRevision(data *codec.Revision) bool {
	plausible := sanitizeNumber(&data.Version)
	for n := range data.Workers {
		plausible = sanitizeNumber(&data.Workers[n].Version) && plausible
	}
	return plausible
}
