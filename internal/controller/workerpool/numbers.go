package workerpool

import (
	"fmt"
	"slices"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/roster"
)

const (
	// mostNumber is larger than any number that a pool reaches, and the maximum that the API accepts in a status.
	mostNumber = 1 << 53
	// mostInStatus is the limit for the status, unless a stored revision has the number. It is lower, so that a pool that continues from
	// the highest number there can still store the next ones.
	mostInStatus = 1 << 52
)

// believed reports whether a pool may have reached a number. Any user who may write to a status, a ConfigMap, a ControllerRevision or a
// pod of the pool can store any number there, and numbers never decrease.
func believed(number int64) bool { return number >= 0 && number < mostNumber }

// believe sets a number to 0 if it is not believed, and reports whether it was.
func believe(number *int64) bool {
	if believed(*number) {
		return true
	}
	*number = 0
	return false
}

// believeStatus drops the numbers of the status that cannot be ours, so that the next report replaces them. Newest is the number of the
// newest stored revision.
func (m *memory) believeStatus(pool *v1alpha1.WorkerPool, newest int64) {
	status := &pool.Status
	for _, field := range []struct {
		name   string
		number *int64
		stored int64
	}{
		{"version", &status.Version, 0}, {"revision", &status.Revision, newest}, {"convergedRevision", &status.ConvergedRevision, newest},
	} {
		if number := *field.number; number < 0 || number >= mostInStatus && number > field.stored {
			*field.number = 0
			m.ignored("status.%s was set to %d", field.name, number)
		}
	}
}

// ignored adds an event that a number is not believed.
func (m *memory) ignored(format string, args ...any) {
	news := event{
		reason: "NumberIgnored", message: fmt.Sprintf(format, args...) + ", which the operator has not given out: it is ignored", warning: true,
	}
	if !slices.Contains(m.news, news) { // it may be pending already
		m.news = append(m.news, news)
	}
}

// believeFile sets the versions that are not believed to 0, and reports whether all of them were believed.
func believeFile(file *roster.File, ledger roster.Ledger) bool {
	all := believe(&file.Version)
	for n := range file.Workers {
		all = believe(&file.Workers[n].Version) && all
	}
	for _, account := range ledger {
		for n := range account.Earlier {
			all = believe(&account.Earlier[n].Version) && all
		}
	}
	return all
}

// believeRevision is believeFile for a revision.
func believeRevision(data *roster.Revision) bool {
	all := believe(&data.Version)
	for n := range data.Workers {
		all = believe(&data.Workers[n].Version) && all
	}
	return all
}
