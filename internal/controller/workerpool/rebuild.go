package workerpool

import (
	"slices"
	"strconv"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// splitPerWorker splits the content of a pool into ConfigMaps by name: one for all workers, or one for each.
func splitPerWorker(pool *v1alpha1.WorkerPool, config configMap) map[string]*configMap {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		return map[string]*configMap{pool.ConfigName(): {file: config.file, ledger: config.ledger}}
	}
	configMaps := make(map[string]*configMap, len(config.file.Workers))
	for _, entry := range config.file.Workers {
		ledger := codec.Ledger{}
		if ledgerEntry, found := config.ledger[entry.Worker]; found {
			ledger[entry.Worker] = ledgerEntry
		}
		configMaps[pool.ConfigNameOf(entry.Worker)] = &configMap{file: codec.File{Version: entry.Version, Workers: []codec.FileEntry{entry}},
			ledger: ledger}
	}
	return configMaps
}

// rebuildConfig returns what is known of a lost config. If the newest revision had converged as planned, the result is identical to it.
// Otherwise a worker may hold what any revision since the last converged one gave it, and keeps what is in all of them.
func (s poolSnapshot) rebuildConfig(pool *v1alpha1.WorkerPool) configMap {
	if len(s.history) == 0 {
		return configMap{file: codec.File{Version: s.highestVersion(pool)}, ledger: codec.Ledger{}}
	}
	newest := s.history[len(s.history)-1]
	if !newest.sanitized && newest.number == pool.Status.ConvergedRevision && newest.data.Version == pool.Status.Version &&
		!s.published.modified {
		return configMap{file: newest.file(), ledger: newest.ledger()}
	}
	records := s.listVersions(pool.Status.ConvergedRevision)
	for n, record := range records {
		jobs := jobsOnAllLists(record.Lists)
		if !s.inEveryRevision(record.Worker, pool.Status.ConvergedRevision) {
			jobs = nil // it joined or was to leave: others may hold its planned jobs
		}
		records[n] = record.WithList(s.highestVersion(pool)+1, jobs)
	}
	return configMap{file: toFile(records), ledger: codec.NewLedger(records, nil)}
}

// inEveryRevision reports whether every revision starting with a number has a worker.
func (s poolSnapshot) inEveryRevision(worker string, from int64) bool {
	return !slices.ContainsFunc(s.history, func(revision storedRevision) bool {
		has := slices.ContainsFunc(revision.data.Workers, func(share codec.RevisionShare) bool { return share.Worker == worker })
		return revision.number >= from && !has
	})
}

// jobsOnAllLists returns the jobs that are on all lists, in the order of the last one.
func jobsOnAllLists(lists []assign.ListVersion) []string {
	jobs := slices.Clone(lists[len(lists)-1].Jobs)
	for _, list := range lists[:len(lists)-1] {
		onList := make(map[string]bool, len(list.Jobs))
		for _, job := range list.Jobs {
			onList[job] = true
		}
		jobs = slices.DeleteFunc(jobs, func(job string) bool { return !onList[job] })
	}
	return jobs
}

// toFile returns the published lists of records.
func toFile(records []assign.Record) codec.File {
	var file codec.File
	for _, record := range records {
		if len(record.Lists) > 0 {
			last := record.Lists[len(record.Lists)-1]
			file.Version = max(file.Version, last.Version)
			file.Workers = append(file.Workers, codec.FileEntry{Worker: record.Worker, Version: last.Version, Jobs: last.Jobs})
		}
	}
	return file
}

// highestVersion returns the highest version known to be published or planned.
func (s poolSnapshot) highestVersion(pool *v1alpha1.WorkerPool) int64 {
	version := max(pool.Status.Version, s.published.version)
	for _, revision := range s.history {
		version = max(version, revision.data.Version)
	}
	for _, pod := range s.pods {
		nudged, _ := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64) // 0 if missing
		if isPlausible(nudged) {
			version = max(version, nudged)
		}
	}
	return version
}
