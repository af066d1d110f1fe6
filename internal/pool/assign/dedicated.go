package assign

import "slices"

// assignDedicated gives each dedicated job a worker of its own while there are enough, and leaves one worker for the shared jobs. In the
// first round a job keeps its worker; in the second it chooses among the remaining ones.
func (s *solver) assignDedicated(jobs []int32, choose func(job int32) *workerInfo) {
	if len(s.list.dedicated) == 0 {
		return
	}
	freeWorkers := len(s.active)
	if s.list.sharedCount() > 0 {
		freeWorkers--
	}
	owner := s.owners()
	for _, job := range jobs {
		if info := owner[job]; info != nil && freeWorkers > 0 && info.canHost(s.list.weightOf(job)) {
			info.reserveFor(job)
			freeWorkers--
		}
	}
	for _, job := range jobs {
		if info := owner[job]; info != nil && info.dedicatedJob == job {
			continue
		}
		if info := choose(job); info != nil && freeWorkers > 0 {
			info.reserveFor(job)
			freeWorkers--
			continue
		}
		s.unplacedDedicated = append(s.unplacedDedicated, job)
	}
	s.separateDedicated()
}

// owners returns the worker of each job.
func (s *solver) owners() []*workerInfo {
	owner := make([]*workerInfo, s.list.Len())
	for n := range s.active {
		for _, job := range s.active[n].jobs {
			owner[job] = &s.active[n]
		}
	}
	return owner
}

func (w *workerInfo) canHost(weight int) bool {
	return w.dedicatedJob == none && (w.Capacity == 0 || weight <= w.Capacity)
}

func (w *workerInfo) reserveFor(job int32) { w.dedicatedJob = job }

// lastFreeWorker returns the free worker with the highest ordinal that could host a job.
func (s *solver) lastFreeWorker(job int32) *workerInfo {
	for n := range slices.Backward(s.active) {
		if info := &s.active[n]; info.canHost(s.list.weightOf(job)) && !info.frozen {
			return info
		}
	}
	return nil
}

// separateDedicated leaves hosts only their dedicated job, and removes dedicated jobs from workers that share.
func (s *solver) separateDedicated() {
	for n := range s.active {
		info := &s.active[n]
		if info.dedicatedJob != none {
			info.jobs, info.load = []int32{info.dedicatedJob}, s.list.weightOf(info.dedicatedJob)
			continue
		}
		shared := make([]int32, 0, len(info.jobs))
		for _, job := range info.jobs {
			if !s.list.jobs[job].Dedicated {
				shared = append(shared, job)
			}
		}
		if len(shared) < len(info.jobs) {
			info.jobs, info.load = shared, s.list.load(shared)
		}
	}
}
