package assign

import (
	"cmp"
	"slices"
)

// assignSticky keeps what fits, takes the surplus of overloaded workers from their tails, and places the rest in list order.
func (s *solver) assignSticky() {
	for n := range s.active {
		s.active[n].frozen = s.active[n].State == NotReady
	}
	s.assignDedicated(s.list.dedicated, s.lastFreeWorker)
	workers, unplaced := s.sharedWorkers(), s.unplacedJobs()
	if !slices.ContainsFunc(workers, func(w *workerInfo) bool { return len(w.jobs) > 0 }) {
		s.placeContiguous(workers, unplaced)
		unplaced, s.unplacedShared = s.unplacedShared, nil
	}
	for n := range s.active {
		if info := &s.active[n]; info.dedicatedJob == none {
			unplaced = append(unplaced, s.trimToCapacity(info)...)
		}
	}
	if s.list.uniformWeight > 0 {
		s.balanceEqual(workers, unplaced)
		return
	}
	s.unplacedShared = s.placeWeighted(workers, s.sortPositions(unplaced))
	// If capacities differ, jobs that one worker gave away can make room for those of another.
	for s.balanceWeighted(workers) && !s.equalCapacity {
		s.unplacedShared = s.placeWeighted(workers, s.unplacedShared)
	}
}

// balanceEqual distributes equal jobs: the floating ones and those on overloaded workers.
func (s *solver) balanceEqual(workers []*workerInfo, unplaced []int32) {
	count := len(unplaced)
	for _, info := range workers {
		count += len(info.jobs)
	}
	floor, extra := s.equalQuota(workers, count)
	unplaced = s.sortPositions(append(unplaced, s.trimToQuota(workers, floor, extra)...))
	belowQuota := slices.DeleteFunc(workers, func(w *workerInfo) bool { return len(w.jobs) > floor || extra == 0 && len(w.jobs) == floor })
	for _, info := range belowQuota {
		info.expectedJobs = min(floor+1, s.maxJobs(info))
	}
	s.unplacedShared = s.placeEqual(belowQuota, unplaced)
}

// trimToCapacity removes the jobs that exceed a worker's capacity, from the tail.
func (s *solver) trimToCapacity(info *workerInfo) []int32 {
	if info.Capacity == 0 || info.load <= info.Capacity {
		return nil
	}
	load, count := info.load, len(info.jobs)
	for load > info.Capacity {
		count--
		load -= s.list.weightOf(info.jobs[count])
	}
	return info.keepFirst(s.list, count)
}

// trimToQuota removes the jobs above the balance of equal jobs, from the tails. If some workers have one job more than others, those that
// already have it keep it.
func (s *solver) trimToQuota(workers []*workerInfo, floor, extra int) (removed []int32) {
	for _, info := range workers {
		quota := floor
		if len(info.jobs) > floor && extra > 0 {
			quota++
			extra--
		}
		if len(info.jobs) > quota {
			removed = append(removed, info.keepFirst(s.list, quota)...)
		}
	}
	return removed
}

// equalQuota returns how many equal jobs every worker with enough capacity gets, and how many workers get one more.
func (s *solver) equalQuota(workers []*workerInfo, jobs int) (floor, extra int) {
	if len(workers) == 0 {
		return 0, 0
	}
	if capacity := s.maxJobs(workers[0]); s.equalCapacity && jobs <= capacity*len(workers) {
		return jobs / len(workers), jobs % len(workers)
	}
	jobsAtLevel := func(level int) int {
		sum := 0
		for _, info := range workers {
			sum += min(level, s.maxJobs(info))
		}
		return sum
	}
	// The level is the highest for which there are enough jobs.
	low, high := 0, jobs
	for low < high {
		middle := low + (high-low+1)/2
		if jobsAtLevel(middle) <= jobs {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low, jobs - jobsAtLevel(low)
}

// maxJobs returns how many equal jobs a worker could hold.
func (s *solver) maxJobs(info *workerInfo) int {
	if info.Capacity == 0 || s.list.uniformWeight == 0 {
		return s.list.Len()
	}
	return info.Capacity / s.list.uniformWeight
}

// balanceWeighted moves jobs from the tail of the most loaded worker to the least loaded one, until no worker is above the latter by more
// than the largest of its own jobs. The lowest load never decreases, so a worker that was level stays level, and no job moves twice.
func (s *solver) balanceWeighted(workers []*workerInfo) (moved bool) {
	lowHeap, highHeap := newHeap(workers, minHeap, hasLessLoad), newHeap(workers, maxHeap, hasMoreLoad)
	for len(highHeap.items) > 0 {
		source := highHeap.items[0]
		if source.load-lowHeap.items[0].load <= s.list.lightest {
			break // and so are all others
		}
		last := source.lastJob()
		target := s.leastLoadedWithRoom(lowHeap, s.list.weightOf(last))
		if target == nil || source.load-target.load <= s.largestWeight(source) {
			highHeap.remove(source)
			continue
		}
		source.keepFirst(s.list, len(source.jobs)-1)
		target.addJob(s.list, last)
		for _, changed := range []*workerInfo{source, target} {
			lowHeap.fix(changed)
			highHeap.fix(changed)
		}
		moved = true
	}
	return moved
}

// lastJob returns the worker's last job in list order.
func (w *workerInfo) lastJob() int32 {
	w.sortJobs()
	w.sortedLen = len(w.jobs)
	return w.jobs[len(w.jobs)-1]
}

func (s *solver) largestWeight(info *workerInfo) int {
	if len(info.jobs) == 0 {
		return 0
	}
	return s.list.weightOf(slices.MaxFunc(info.jobs, func(a, b int32) int { return cmp.Compare(s.list.weightOf(a), s.list.weightOf(b)) }))
}
