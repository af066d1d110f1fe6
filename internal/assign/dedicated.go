package assign

import "slices"

// dedicate gives each dedicated job a worker of its own while there are enough, and leaves one worker for the shared jobs. In the first
// round a job keeps its worker; in the second it chooses among the remaining ones.
func (p *pass) dedicate(jobs []int32, choose func(job int32) *seat) {
	if len(p.list.dedicated) == 0 {
		return
	}
	room := len(p.seats)
	if p.list.shared() > 0 {
		room--
	}
	owner := p.owners()
	for _, job := range jobs {
		if at := owner[job]; at != nil && room > 0 && at.hostable(p.list.weightOf(job)) {
			at.host(job)
			room--
		}
	}
	for _, job := range jobs {
		if at := owner[job]; at != nil && at.hosts == job {
			continue
		}
		if at := choose(job); at != nil && room > 0 {
			at.host(job)
			room--
			continue
		}
		p.crowded = append(p.crowded, job)
	}
	p.evict()
}

// owners returns the seat of each job.
func (p *pass) owners() []*seat {
	owner := make([]*seat, p.list.Len())
	for n := range p.seats {
		for _, job := range p.seats[n].jobs {
			owner[job] = &p.seats[n]
		}
	}
	return owner
}

func (s *seat) hostable(weight int) bool {
	return s.hosts == nobody && (s.Capacity == 0 || weight <= s.Capacity)
}

func (s *seat) host(job int32) { s.hosts = job }

// last returns the free worker with the highest ordinal that could host a job.
func (p *pass) last(job int32) *seat {
	for n := range slices.Backward(p.seats) {
		if at := &p.seats[n]; at.hostable(p.list.weightOf(job)) && !at.still {
			return at
		}
	}
	return nil
}

// evict leaves hosts only their dedicated job, and removes dedicated jobs from workers that share.
func (p *pass) evict() {
	for n := range p.seats {
		at := &p.seats[n]
		if at.hosts != nobody {
			at.jobs, at.load = []int32{at.hosts}, p.list.weightOf(at.hosts)
			continue
		}
		kept := make([]int32, 0, len(at.jobs))
		for _, job := range at.jobs {
			if !p.list.jobs[job].Dedicated {
				kept = append(kept, job)
			}
		}
		if len(kept) < len(at.jobs) {
			at.jobs, at.load = kept, p.list.load(kept)
		}
	}
}
