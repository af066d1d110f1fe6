package plan

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// Published is what was published to workers.
type Published struct {
	ConfigMaps map[string]*ConfigMap // by name of ConfigMap
	Version    int64                 // the highest of all
	Entries    []codec.FileEntry
	Ledger     codec.Ledger
	Missing    bool // there is no ConfigMap
	Modified   bool // another writer has changed one
}

// hasUnreleasedJobs reports whether any worker may hold more than is published.
func (p Published) hasUnreleasedJobs() bool {
	for _, entry := range p.Ledger {
		if len(entry.Earlier) > 0 {
			return true
		}
	}
	return false
}

// Records returns what workers may hold, by ordinal. No worker has confirmed anything yet.
func (p Published) Records(w Workload) []assign.Record {
	records := p.Ledger.Records(codec.File{Version: p.Version, Workers: p.Entries})
	for n := range records {
		if !w.usesSlots() {
			records[n].Ordinal = w.ordinalOf(records[n].Worker)
		}
	}
	slices.SortFunc(records, func(a, b assign.Record) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Worker, b.Worker))
	})
	return records
}

// NewPublished returns what was published before any ConfigMap is added.
func NewPublished(missing bool) Published {
	return Published{ConfigMaps: map[string]*ConfigMap{}, Ledger: codec.Ledger{}, Missing: missing}
}

// Add adds the content of a ConfigMap. Another writer may have made one that is not ours.
func (p *Published) Add(cm *ConfigMap, isOurs bool) {
	p.ConfigMaps[cm.Object.Name] = cm
	p.Version = max(p.Version, cm.File.Version)
	p.Entries = append(p.Entries, cm.File.Workers...)
	maps.Copy(p.Ledger, cm.Ledger)
	p.Modified = p.Modified || isOurs && cm.Modified
}

// NewConfigMap returns a ConfigMap that does not exist yet.
func NewConfigMap(pool *v1alpha1.WorkerPool, name string) *ConfigMap {
	return &ConfigMap{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: name}}, Ledger: codec.Ledger{}}
}
