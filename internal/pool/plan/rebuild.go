package plan

import (
	"slices"
	"strconv"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// SplitPerWorker splits the content of a pool into ConfigMaps by name: one for all workers, or one for each.
func SplitPerWorker(pool *v1alpha1.WorkerPool, config ConfigMap) map[string]*ConfigMap {
	if pool.Spec.Config.Layout != v1alpha1.LayoutPerWorker {
		return map[string]*ConfigMap{pool.ConfigName(): {File: config.File, Ledger: config.Ledger}}
	}
	configMaps := make(map[string]*ConfigMap, len(config.File.Workers))
	for _, entry := range config.File.Workers {
		ledger := codec.Ledger{}
		if ledgerEntry, found := config.Ledger[entry.Worker]; found {
			ledger[entry.Worker] = ledgerEntry
		}
		configMaps[pool.ConfigNameOf(entry.Worker)] = &ConfigMap{File: codec.File{Version: entry.Version, Workers: []codec.FileEntry{entry}},
			Ledger: ledger}
	}
	return configMaps
}

// RebuildConfig returns what is known of a lost config. If the newest revision had converged as planned, the result is identical to it.
// Otherwise a worker may hold what any revision since the last converged one gave it, and keeps what is in all of them.
func (s Snapshot) RebuildConfig(pool *v1alpha1.WorkerPool) ConfigMap {
	if len(s.History) == 0 {
		return ConfigMap{File: codec.File{Version: s.highestVersion(pool)}, Ledger: codec.Ledger{}}
	}
	newest := s.History[len(s.History)-1]
	if !newest.Sanitized && newest.Number == pool.Status.ConvergedRevision && newest.Data.Version == pool.Status.Version &&
		!s.Published.Modified {
		return ConfigMap{File: newest.File(), Ledger: newest.Ledger()}
	}
	records := s.listVersions(pool.Status.ConvergedRevision)
	for n, record := range records {
		jobs := jobsOnAllLists(record.Lists)
		if !s.inEveryRevision(record.Worker, pool.Status.ConvergedRevision) {
			jobs = nil // it joined or was to leave: others may hold its planned jobs
		}
		records[n] = record.WithList(s.highestVersion(pool)+1, jobs)
	}
	return ConfigMap{File: toFile(records), Ledger: codec.NewLedger(records, nil)}
}

// inEveryRevision reports whether every revision starting with a number has a worker.
func (s Snapshot) inEveryRevision(worker string, from int64) bool {
	return !slices.ContainsFunc(s.History, func(revision StoredRevision) bool {
		has := slices.ContainsFunc(revision.Data.Workers, func(share codec.RevisionShare) bool { return share.Worker == worker })
		return revision.Number >= from && !has
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
func (s Snapshot) highestVersion(pool *v1alpha1.WorkerPool) int64 {
	version := max(pool.Status.Version, s.Published.Version)
	for _, revision := range s.History {
		version = max(version, revision.Data.Version)
	}
	for _, pod := range s.Pods {
		nudged, _ := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationConfigVersion], 10, 64) // 0 if missing
		if IsPlausible(nudged) {
			version = max(version, nudged)
		}
	}
	return version
}
