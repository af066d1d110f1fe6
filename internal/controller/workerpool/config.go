package workerpool

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

// hasUnreleasedJobs reports whether any worker may hold more than is published.
func (p publishedConfig) hasUnreleasedJobs() bool {
	for _, entry := range p.ledger {
		if len(entry.Earlier) > 0 {
			return true
		}
	}
	return false
}

// publishedConfig is what was published to workers.
type publishedConfig struct {
	configMaps map[string]*configMap // by name of ConfigMap
	version    int64                 // the highest of all
	entries    []codec.FileEntry
	ledger     codec.Ledger
	missing    bool // there is no ConfigMap
	modified   bool // another writer has changed one
}

// records returns what workers may hold, by ordinal. No worker has confirmed anything yet.
func (p publishedConfig) records(w poolWorkload) []assign.Record {
	records := p.ledger.Records(codec.File{Version: p.version, Workers: p.entries})
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

func (p *publishedConfig) add(cm *configMap, isOurs bool) {
	p.configMaps[cm.object.Name] = cm
	p.version = max(p.version, cm.file.Version)
	p.entries = append(p.entries, cm.file.Workers...)
	maps.Copy(p.ledger, cm.ledger)
	p.modified = p.modified || isOurs && cm.modified
}

// newConfigMap returns a ConfigMap that does not exist yet.
func newConfigMap(pool *v1alpha1.WorkerPool, name string) *configMap {
	return &configMap{object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: name}}, ledger: codec.Ledger{}}
}
