package assign

import (
	"cmp"
	"slices"
)

// maxRehashes limits how often a job whose home is dead is rehashed before all workers are compared.
const maxRehashes = 64

// jobsByHash returns the jobs of each open worker before limits apply.
func (s *solver) jobsByHash(workers []*workerInfo) [][]int32 {
	index := newOrdinalIndex(workers)
	jobsByWorker := make([][]int32, len(workers))
	mean := s.list.sharedCount()/len(workers) + 1
	for job, hash := range s.list.nameHashes() {
		if s.list.jobs[job].Dedicated {
			continue
		}
		worker := index.workerFor(hash)
		if jobsByWorker[worker] == nil {
			jobsByWorker[worker] = make([]int32, 0, mean+mean/4)
		}
		jobsByWorker[worker] = append(jobsByWorker[worker], int32(job))
	}
	return jobsByWorker
}

// ordinalIndex finds the live worker with a given ordinal.
type ordinalIndex struct {
	workers   []*workerInfo
	end       int     // one above the highest
	byOrdinal []int32 // by ordinal, unless ordinals are too sparse
}

func newOrdinalIndex(workers []*workerInfo) ordinalIndex {
	o := ordinalIndex{workers: workers, end: workers[len(workers)-1].Ordinal + 1}
	if o.end > 16*len(workers)+1024 {
		return o
	}
	o.byOrdinal = slices.Repeat([]int32{none}, o.end)
	for n, info := range workers {
		o.byOrdinal[info.Ordinal] = int32(n)
	}
	return o
}

func (o ordinalIndex) find(ordinal int) int32 {
	if o.byOrdinal != nil {
		return o.byOrdinal[ordinal]
	}
	n, found := slices.BinarySearchFunc(o.workers, ordinal, func(w *workerInfo, ordinal int) int { return cmp.Compare(w.Ordinal, ordinal) })
	if !found {
		return none
	}
	return int32(n)
}

// workerFor returns the worker for a hash. Dead ordinals are skipped by rehashing; by position, all jobs after one would shift.
func (o ordinalIndex) workerFor(hash uint64) int32 {
	for range maxRehashes {
		if home := o.find(jumpHash(hash, o.end)); home != none {
			return home
		}
		hash = mix(hash)
	}
	best := 0
	for n := range o.workers {
		if pairHash(hash, o.workers[n].Ordinal) < pairHash(hash, o.workers[best].Ordinal) {
			best = n
		}
	}
	return int32(best)
}
