package assign

import (
	"cmp"
	"slices"
)

// placeEqual places equal jobs, each on the least loaded worker with room, lowest ordinal first, level by level.
func (s *solver) placeEqual(workers []*workerInfo, jobs []int32) (unplaced []int32) {
	if len(jobs) == 0 {
		return nil
	}
	waiting := slices.Clone(workers)
	slices.SortFunc(waiting, func(a, b *workerInfo) int {
		return cmp.Or(cmp.Compare(len(a.jobs), len(b.jobs)), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	var filling []*workerInfo
	for len(jobs) > 0 {
		if len(filling) == 0 && len(waiting) == 0 {
			return jobs
		}
		filling, waiting = addNextLevel(filling, waiting)
		for _, info := range filling {
			if len(jobs) > 0 && len(info.jobs) < s.maxJobs(info) {
				info.addJob(s.list, jobs[0])
				jobs = jobs[1:]
			}
		}
		filling = slices.DeleteFunc(filling, func(w *workerInfo) bool { return len(w.jobs) >= s.maxJobs(w) })
	}
	return nil
}

// addNextLevel adds waiting workers that have as few jobs as those being filled, which all have the same number.
func addNextLevel(filling, waiting []*workerInfo) (next, rest []*workerInfo) {
	level := -1
	if len(filling) > 0 {
		level = len(filling[0].jobs)
	}
	count := 0
	for count < len(waiting) && (level < 0 || len(waiting[count].jobs) <= level) {
		level = len(waiting[count].jobs)
		count++
	}
	if count > 0 {
		filling = append(filling, waiting[:count]...)
		slices.SortFunc(filling, func(a, b *workerInfo) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	}
	return filling, waiting[count:]
}

// placeWeighted places jobs of different weights in order, each on the least loaded worker with room, lowest ordinal first.
func (s *solver) placeWeighted(workers []*workerInfo, jobs []int32) (unplaced []int32) {
	byLoad := newHeap(workers, minHeap, hasLessLoad)
	tooHeavy := 0 // a weight for which no worker has room: room only shrinks here
	for _, job := range jobs {
		weight := s.list.weightOf(job)
		info := (*workerInfo)(nil)
		if tooHeavy == 0 || weight < tooHeavy {
			info = s.leastLoadedWithRoom(byLoad, weight)
		}
		if info != nil {
			info.addJob(s.list, job)
			byLoad.fix(info)
			continue
		}
		unplaced = append(unplaced, job)
		if tooHeavy == 0 || weight < tooHeavy {
			tooHeavy = weight
		}
	}
	return unplaced
}

// leastLoadedWithRoom returns the least loaded worker that has room for a weight, or nil.
func (s *solver) leastLoadedWithRoom(byLoad *heap, weight int) *workerInfo {
	if len(byLoad.items) == 0 {
		return nil
	}
	top := byLoad.items[0]
	if top.fits(weight) {
		return top
	}
	if s.equalCapacity {
		return nil
	}
	return byLoad.firstFit(func(w *workerInfo) bool { return w.fits(weight) })
}

// placeContiguous gives each worker a contiguous piece of the list.
func (s *solver) placeContiguous(workers []*workerInfo, jobs []int32) {
	if len(workers) == 0 {
		s.unplacedShared = jobs
		return
	}
	if s.list.uniformWeight > 0 {
		s.unplacedShared = s.placeContiguousEqual(workers, jobs)
		return
	}
	total := s.list.load(jobs)
	precedingWeight := 0
	for _, job := range jobs {
		weight := s.list.weightOf(job)
		// The middle of a job decides which worker's part of the total weight it is in.
		workers[(2*precedingWeight+weight)*len(workers)/(2*total)].addJob(s.list, job)
		precedingWeight += weight
	}
	var overflow []int32
	for _, info := range workers {
		overflow = append(overflow, s.trimToCapacity(info)...)
	}
	slices.Sort(overflow)
	s.unplacedShared = s.placeWeighted(workers, overflow)
}

// placeContiguousEqual deals equal jobs: pieces differ by at most one, and the first ones are longer.
func (s *solver) placeContiguousEqual(workers []*workerInfo, jobs []int32) (unplaced []int32) {
	floor, extra := s.equalQuota(workers, len(jobs))
	for _, info := range workers {
		quota := min(floor, s.maxJobs(info))
		if extra > 0 && s.maxJobs(info) > floor {
			quota++
			extra--
		}
		info.jobs, info.jobsWritable, info.sortedLen = slices.Clone(jobs[:quota]), true, quota
		info.load = s.list.uniformWeight * quota
		jobs = jobs[quota:]
	}
	return jobs
}

// assignContiguous ignores history, so that the worker of a job follows from the list alone.
func (s *solver) assignContiguous() {
	s.clearHistory()
	s.assignDedicated(s.list.dedicated, s.lastFreeWorker)
	s.placeContiguous(s.sharedWorkers(), s.unplacedJobs())
}
