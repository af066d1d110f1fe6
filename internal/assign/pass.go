package assign

import (
	"cmp"
	"math"
	"slices"
)

// pass is one assignment in progress.
type pass struct {
	list    *Jobs
	workers []Worker  // all workers given, by ordinal
	seats   []seat    // participating workers, by ordinal
	before  []share   // the previous revision, as positions in the list
	added   []int32   // jobs that the previous revision did not have
	orphans [][]int32 // jobs of workers that no longer participate
	even    bool      // all participating workers have the same capacity
	left    []int32   // shared jobs that no worker can take
	crowded []int32   // dedicated jobs for which there is no worker
}

// seat is a worker that participates.
type seat struct {
	*Worker
	jobs    []int32 // ascending once settled; belongs to the previous revision until own is set
	load    int
	sorted  int    // length of the prefix of jobs known to be ascending
	expects int    // the expected number of jobs, if known
	rank    [2]int // its position in each of the heaps
	hosts   int32  // the dedicated job that has this worker to itself, or nobody
	own     bool   // jobs may be written
	still   bool   // neither takes nor gives jobs: the worker is away
}

const nobody = -1

func begin(in Input) *pass {
	p := &pass{list: in.Jobs, workers: ordered(in.Workers), even: true}
	p.before, p.added = in.Previous.on(in.Jobs)
	p.seats = make([]seat, 0, len(p.workers))
	rest := p.before
	for n := range p.workers {
		worker := &p.workers[n]
		rest = p.orphan(rest, worker.Ordinal)
		found := len(rest) > 0 && rest[0].ordinal == worker.Ordinal
		if worker.State == Leaving || worker.State == Away && !found {
			continue
		}
		place := seat{Worker: worker, hosts: nobody}
		if found {
			place.jobs, place.load, rest = rest[0].jobs, rest[0].load, rest[1:]
		}
		p.seats = append(p.seats, place)
		p.even = p.even && worker.Capacity == p.seats[0].Capacity
	}
	p.orphan(rest, math.MaxInt)
	return p
}

// orphan records the jobs of shares below an ordinal, which have no worker, and returns the other shares.
func (p *pass) orphan(shares []share, ordinal int) []share {
	for len(shares) > 0 && shares[0].ordinal < ordinal {
		p.orphans = append(p.orphans, shares[0].jobs)
		shares = shares[1:]
	}
	return shares
}

// ordered returns the workers by ordinal, one for each. Workers with an ordinal that Kubernetes could not have assigned are dropped.
func ordered(workers []Worker) []Worker {
	sorted := slices.DeleteFunc(slices.Clone(workers), func(w Worker) bool { return w.Ordinal < 0 || w.Ordinal > math.MaxInt32 })
	slices.SortFunc(sorted, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(sorted, func(a, b Worker) bool { return a.Ordinal == b.Ordinal })
}

// forget discards the history.
func (p *pass) forget() {
	for n := range p.seats {
		p.seats[n].jobs, p.seats[n].load = nil, 0
	}
}

// open returns the seats that share jobs.
func (p *pass) open() []*seat {
	open := make([]*seat, 0, len(p.seats))
	for n := range p.seats {
		if at := &p.seats[n]; at.hosts == nobody && !at.still {
			open = append(open, at)
		}
	}
	return open
}

func (s *seat) fits(weight int) bool { return s.Capacity == 0 || s.load+weight <= s.Capacity }

// give adds a job.
func (s *seat) give(list *Jobs, job int32) {
	if !s.own {
		s.sorted = len(s.jobs)
		s.jobs = append(make([]int32, 0, max(len(s.jobs)+8, s.expects)), s.jobs...)
		s.own = true
	}
	s.jobs = append(s.jobs, job)
	s.load += list.weightOf(job)
}

// keep retains the first count jobs of the seat and returns the others.
func (s *seat) keep(list *Jobs, count int) (shed []int32) {
	shed = s.jobs[count:]
	s.jobs = s.jobs[:count:count]
	s.load -= list.load(shed)
	s.sorted = min(s.sorted, count)
	return shed
}

// settle sorts the added jobs into those that were kept.
func (s *seat) settle() {
	if !s.own || slices.IsSorted(s.jobs[max(0, s.sorted-1):]) {
		return
	}
	given := slices.Clone(s.jobs[s.sorted:])
	slices.Sort(given)
	kept := s.sorted
	for at := len(s.jobs) - 1; len(given) > 0; at-- {
		last := len(given) - 1
		if kept > 0 && s.jobs[kept-1] > given[last] {
			kept--
			s.jobs[at] = s.jobs[kept]
			continue
		}
		s.jobs[at], given = given[last], given[:last]
	}
	s.sorted = len(s.jobs)
}

// inListOrder sorts positions. For a large part of the list, marking them is faster than comparing.
func (p *pass) inListOrder(jobs []int32) []int32 {
	if len(jobs) < p.list.Len()/16 || slices.IsSorted(jobs) {
		slices.Sort(jobs)
		return jobs
	}
	marked := make([]bool, p.list.Len())
	for _, job := range jobs {
		marked[job] = true
	}
	jobs = jobs[:0]
	for job := range marked {
		if marked[job] {
			jobs = append(jobs, int32(job))
		}
	}
	return jobs
}

// loose returns shared jobs without a seat that are new or whose worker is gone. Jobs that were unassigned before may be missing.
func (p *pass) loose() []int32 {
	jobs := slices.Concat(append(p.orphans, p.added)...)
	jobs = slices.DeleteFunc(jobs, func(job int32) bool { return p.list.jobs[job].Dedicated })
	slices.Sort(jobs)
	return jobs
}

// homeless returns the shared jobs without a seat, in list order.
func (p *pass) homeless() []int32 {
	placed := len(p.list.dedicated)
	for n := range p.seats {
		if p.seats[n].hosts == nobody {
			placed += len(p.seats[n].jobs)
		}
	}
	missing := p.list.Len() - placed
	if missing == 0 {
		return nil
	}
	if missing < p.list.Len()/16 {
		// If these are as many as are missing, there are no others to find.
		if known := p.loose(); len(known) == missing {
			return known
		}
	}
	housed := make([]bool, p.list.Len())
	for n := range p.seats {
		for _, job := range p.seats[n].jobs {
			housed[job] = true
		}
	}
	for _, job := range p.list.dedicated {
		housed[job] = true
	}
	homeless := make([]int32, 0, missing)
	for job := range housed {
		if !housed[job] {
			homeless = append(homeless, int32(job))
		}
	}
	return homeless
}

func (p *pass) revision(strategy Strategy) *Revision {
	revision := &Revision{list: p.list, shares: make([]share, len(p.seats))}
	if strategy == Hashed {
		revision.algorithm = Algorithm
	}
	for n := range p.seats {
		at := &p.seats[n]
		at.settle()
		revision.shares[n] = share{worker: at.Name, ordinal: at.Ordinal, jobs: at.jobs, load: at.load}
	}
	return revision
}
