package assign

import (
	"cmp"
	"math"
	"slices"
)

// solver is one assignment in progress.
type solver struct {
	list              *JobList
	workers           []Worker       // all workers given, by ordinal
	active            []workerInfo   // participating workers, by ordinal
	previous          []indexedShare // the previous revision, as positions in the list
	addedJobs         []int32        // jobs that the previous revision did not have
	orphans           [][]int32      // jobs of workers that no longer participate
	equalCapacity     bool           // all participating workers have the same capacity
	unplacedShared    []int32        // shared jobs that no worker can take
	unplacedDedicated []int32        // dedicated jobs for which there is no worker
}

// workerInfo is a worker that participates.
type workerInfo struct {
	*Worker
	jobs         []int32 // ascending once settled; belongs to the previous revision until own is set
	load         int
	sortedLen    int    // length of the prefix of jobs known to be ascending
	expectedJobs int    // the expected number of jobs, if known
	heapIndex    [2]int // its position in each of the heaps
	dedicatedJob int32  // the dedicated job that has this worker to itself, or nobody
	jobsWritable bool   // jobs may be written
	frozen       bool   // neither takes nor gives jobs: the worker is away
}

const none = -1

func newSolver(in Input) *solver {
	s := &solver{list: in.Jobs, workers: normalizeWorkers(in.Workers), equalCapacity: true}
	s.previous, s.addedJobs = in.Previous.translate(in.Jobs)
	s.active = make([]workerInfo, 0, len(s.workers))
	remaining := s.previous
	for n := range s.workers {
		worker := &s.workers[n]
		remaining = s.collectOrphans(remaining, worker.Ordinal)
		inPrevious := len(remaining) > 0 && remaining[0].ordinal == worker.Ordinal
		if worker.State == Leaving || worker.State == NotReady && !inPrevious {
			continue
		}
		info := workerInfo{Worker: worker, dedicatedJob: none}
		if inPrevious {
			info.jobs, info.load, remaining = remaining[0].jobs, remaining[0].load, remaining[1:]
		}
		s.active = append(s.active, info)
		s.equalCapacity = s.equalCapacity && worker.Capacity == s.active[0].Capacity
	}
	s.collectOrphans(remaining, math.MaxInt)
	return s
}

// collectOrphans records the jobs of shares below an ordinal, which have no worker, and returns the other shares.
func (s *solver) collectOrphans(shares []indexedShare, ordinal int) []indexedShare {
	for len(shares) > 0 && shares[0].ordinal < ordinal {
		s.orphans = append(s.orphans, shares[0].jobs)
		shares = shares[1:]
	}
	return shares
}

// normalizeWorkers returns the workers by ordinal, one for each. Workers with an ordinal that Kubernetes could not have assigned are
// dropped.
func normalizeWorkers(workers []Worker) []Worker {
	sorted := slices.DeleteFunc(slices.Clone(workers), func(w Worker) bool { return w.Ordinal < 0 || w.Ordinal > math.MaxInt32 })
	slices.SortFunc(sorted, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(sorted, func(a, b Worker) bool { return a.Ordinal == b.Ordinal })
}

// clearHistory discards the history.
func (s *solver) clearHistory() {
	for n := range s.active {
		s.active[n].jobs, s.active[n].load = nil, 0
	}
}

// sharedWorkers returns the workers that share jobs.
func (s *solver) sharedWorkers() []*workerInfo {
	workers := make([]*workerInfo, 0, len(s.active))
	for n := range s.active {
		if info := &s.active[n]; info.dedicatedJob == none && !info.frozen {
			workers = append(workers, info)
		}
	}
	return workers
}

func (w *workerInfo) fits(weight int) bool { return w.Capacity == 0 || w.load+weight <= w.Capacity }

// addJob adds a job.
func (w *workerInfo) addJob(list *JobList, job int32) {
	if !w.jobsWritable {
		w.sortedLen = len(w.jobs)
		w.jobs = append(make([]int32, 0, max(len(w.jobs)+8, w.expectedJobs)), w.jobs...)
		w.jobsWritable = true
	}
	w.jobs = append(w.jobs, job)
	w.load += list.weightOf(job)
}

// keepFirst retains the first count jobs of the worker and returns the others.
func (w *workerInfo) keepFirst(list *JobList, count int) (removed []int32) {
	removed = w.jobs[count:]
	w.jobs = w.jobs[:count:count]
	w.load -= list.load(removed)
	w.sortedLen = min(w.sortedLen, count)
	return removed
}

// sortJobs sorts the added jobs into those that were kept.
func (w *workerInfo) sortJobs() {
	if !w.jobsWritable || slices.IsSorted(w.jobs[max(0, w.sortedLen-1):]) {
		return
	}
	added := slices.Clone(w.jobs[w.sortedLen:])
	slices.Sort(added)
	keptLen := w.sortedLen
	for at := len(w.jobs) - 1; len(added) > 0; at-- {
		last := len(added) - 1
		if keptLen > 0 && w.jobs[keptLen-1] > added[last] {
			keptLen--
			w.jobs[at] = w.jobs[keptLen]
			continue
		}
		w.jobs[at], added = added[last], added[:last]
	}
	w.sortedLen = len(w.jobs)
}

// sortPositions sorts positions. For a large part of the list, marking them is faster than comparing.
func (s *solver) sortPositions(jobs []int32) []int32 {
	if len(jobs) < s.list.Len()/16 || slices.IsSorted(jobs) {
		slices.Sort(jobs)
		return jobs
	}
	present := make([]bool, s.list.Len())
	for _, job := range jobs {
		present[job] = true
	}
	jobs = jobs[:0]
	for job := range present {
		if present[job] {
			jobs = append(jobs, int32(job))
		}
	}
	return jobs
}

// newlyUnplaced returns shared jobs without a worker that are new or whose worker is gone. Jobs that were unassigned before may be missing.
func (s *solver) newlyUnplaced() []int32 {
	unplaced := slices.Concat(append(s.orphans, s.addedJobs)...)
	unplaced = slices.DeleteFunc(unplaced, func(job int32) bool { return s.list.jobs[job].Dedicated })
	slices.Sort(unplaced)
	return unplaced
}

// unplacedJobs returns the shared jobs without a worker, in list order.
func (s *solver) unplacedJobs() []int32 {
	placed := len(s.list.dedicated)
	for n := range s.active {
		if s.active[n].dedicatedJob == none {
			placed += len(s.active[n].jobs)
		}
	}
	missing := s.list.Len() - placed
	if missing == 0 {
		return nil
	}
	if missing < s.list.Len()/16 {
		// If these are as many as are missing, there are no others to find.
		if newly := s.newlyUnplaced(); len(newly) == missing {
			return newly
		}
	}
	isPlaced := make([]bool, s.list.Len())
	for n := range s.active {
		for _, job := range s.active[n].jobs {
			isPlaced[job] = true
		}
	}
	for _, job := range s.list.dedicated {
		isPlaced[job] = true
	}
	unplaced := make([]int32, 0, missing)
	for job := range isPlaced {
		if !isPlaced[job] {
			unplaced = append(unplaced, int32(job))
		}
	}
	return unplaced
}

func (s *solver) buildRevision(strategy Strategy) *Revision {
	revision := &Revision{list: s.list, shares: make([]indexedShare, len(s.active))}
	if strategy == Hashed {
		revision.algorithm = Algorithm
	}
	for n := range s.active {
		info := &s.active[n]
		info.sortJobs()
		revision.shares[n] = indexedShare{worker: info.Name, ordinal: info.Ordinal, jobs: info.jobs, load: info.load}
	}
	return revision
}
