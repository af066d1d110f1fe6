package assign

import (
	"cmp"
	"slices"
)

// assignHashed ignores history and the order of the list: it finds homes by jump hash, applies limits, and rehashes the jobs above them.
func (s *solver) assignHashed(imbalance int) {
	s.clearHistory()
	hashes := s.list.nameHashes()
	byHash := func(a, b int32) int {
		return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(s.list.jobs[a].Name, s.list.jobs[b].Name))
	}
	dedicated := slices.Clone(s.list.dedicated)
	slices.SortFunc(dedicated, byHash)
	s.assignDedicated(dedicated, s.preferredWorker)
	workers := s.sharedWorkers()
	if len(workers) == 0 {
		s.unplacedShared = s.unplacedJobs()
		return
	}
	if imbalance == 0 {
		imbalance = DefaultImbalancePercent
	}
	limits := s.loadLimits(workers, imbalance)
	overflow := s.trimToLimits(workers, s.jobsByHash(workers), limits)
	slices.SortFunc(overflow, byHash)
	overflow = s.placeInBins(workers, overflow, limits)
	s.unplacedShared = s.placeWeighted(workers, overflow)
	slices.Sort(s.unplacedShared)
	for _, info := range workers {
		slices.Sort(info.jobs)
	}
}

// preferredWorker returns the free worker that has the smallest hash with a dedicated job.
func (s *solver) preferredWorker(job int32) (best *workerInfo) {
	hash := s.list.nameHashes()[job]
	for n := range s.active {
		info := &s.active[n]
		if info.canHost(s.list.weightOf(job)) && (best == nil || pairHash(hash, info.Ordinal) < pairHash(hash, best.Ordinal)) {
			best = info
		}
	}
	return best
}

// loadLimits returns how much weight each worker may have. For equal jobs, the total including slack is split by ordinal into floor and
// ceiling. Otherwise there is one limit on a grid of 5 %, because a limit that followed every change of the total would move jobs
// everywhere.
func (s *solver) loadLimits(workers []*workerInfo, imbalance int) []int {
	limits := make([]int, len(workers))
	for n, info := range workers {
		if s.list.uniformWeight > 0 {
			total := ceilDiv(s.list.sharedCount()*(100+imbalance), 100)
			limits[n] = s.list.uniformWeight * (total / len(workers))
			if n < total%len(workers) {
				limits[n] += s.list.uniformWeight
			}
		} else {
			limits[n] = roundUpToGrid(max(s.list.heaviest, ceilDiv(s.list.totalWeight*(100+imbalance), 100*len(workers))))
		}
		if info.Capacity > 0 {
			limits[n] = min(limits[n], info.Capacity)
		}
	}
	return limits
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// roundUpToGrid returns the first of 1, 2, 3 ... in steps of 5 % that is not below a number.
func roundUpToGrid(number int) int {
	grid := 1
	for grid < number {
		grid = max(grid+1, grid*105/100)
	}
	return grid
}

// rankedJob is a job with its hash for a worker.
type rankedJob struct {
	job  int32
	hash uint64
}

// trimToLimits leaves each worker the jobs with the smallest hashes up to its limit, and returns the others.
func (s *solver) trimToLimits(workers []*workerInfo, jobsByWorker [][]int32, limits []int) (overflow []int32) {
	var candidates []rankedJob
	for n, info := range workers {
		info.jobs, info.jobsWritable, info.load = jobsByWorker[n], true, s.list.load(jobsByWorker[n])
		if info.load <= limits[n] {
			continue
		}
		candidates = candidates[:0]
		for _, job := range info.jobs {
			candidates = append(candidates, rankedJob{job, pairHash(s.list.nameHashes()[job], info.Ordinal)})
		}
		slices.SortFunc(candidates, func(a, b rankedJob) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(s.list.jobs[a.job].Name, s.list.jobs[b.job].Name))
		})
		info.jobs, info.load = info.jobs[:0], 0
		for _, candidate := range candidates {
			if info.load+s.list.weightOf(candidate.job) <= limits[n] {
				info.addJob(s.list, candidate.job)
			} else {
				overflow = append(overflow, candidate.job)
			}
		}
	}
	return overflow
}

// placeInBins matches jobs to free room in rounds, each with new hashes and half as many bins. Changes in one bin do not affect the others.
func (s *solver) placeInBins(workers []*workerInfo, jobs []int32, limits []int) []int32 {
	binCount := 1
	for binCount < len(workers) {
		binCount *= 2
	}
	for round := 1; binCount > 0 && len(jobs) > 0; round++ {
		bins := s.binWorkers(workers, limits, binCount, round)
		jobs = slices.DeleteFunc(jobs, func(job int32) bool {
			weight := s.list.weightOf(job)
			for _, n := range bins[pairHash(s.list.nameHashes()[job], -round)&uint64(binCount-1)] {
				if workers[n].load+weight <= limits[n] {
					workers[n].addJob(s.list, job)
					return true
				}
			}
			return false
		})
		binCount /= 2
	}
	return jobs
}

// binWorkers returns the workers with room in each bin.
func (s *solver) binWorkers(workers []*workerInfo, limits []int, binCount, round int) [][]int32 {
	byBin := make([][]int32, binCount)
	for n, info := range workers {
		if info.load < limits[n] {
			bin := pairHash(mix(uint64(info.Ordinal)), round) & uint64(binCount-1)
			byBin[bin] = append(byBin[bin], int32(n))
		}
	}
	return byBin
}
