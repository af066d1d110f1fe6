package assign

import (
	"cmp"
	"slices"
)

// sticky keeps what fits, takes the surplus of overloaded workers from their tails, and places the rest in list order.
func (p *pass) sticky() {
	for n := range p.seats {
		p.seats[n].still = p.seats[n].State == Away
	}
	p.dedicate(p.list.dedicated, p.last)
	open, floating := p.open(), p.homeless()
	if !slices.ContainsFunc(open, func(s *seat) bool { return len(s.jobs) > 0 }) {
		p.deal(open, floating)
		floating, p.left = p.left, nil
	}
	for n := range p.seats {
		if at := &p.seats[n]; at.hosts == nobody {
			floating = append(floating, p.overload(at)...)
		}
	}
	if p.list.weight > 0 {
		p.balance(open, floating)
		return
	}
	p.left = p.pour(open, p.inListOrder(floating))
	// If capacities differ, jobs that one worker gave away can make room for those of another.
	for p.level(open) && !p.even {
		p.left = p.pour(open, p.left)
	}
}

// balance distributes equal jobs: the floating ones and those on overloaded workers.
func (p *pass) balance(open []*seat, floating []int32) {
	count := len(floating)
	for _, at := range open {
		count += len(at.jobs)
	}
	floor, extra := p.waterline(open, count)
	floating = p.inListOrder(append(floating, p.surplus(open, floor, extra)...))
	low := slices.DeleteFunc(open, func(s *seat) bool { return len(s.jobs) > floor || extra == 0 && len(s.jobs) == floor })
	for _, at := range low {
		at.expects = min(floor+1, p.most(at))
	}
	p.left = p.fill(low, floating)
}

// overload removes the jobs that exceed a worker's capacity, from the tail.
func (p *pass) overload(at *seat) []int32 {
	if at.Capacity == 0 || at.load <= at.Capacity {
		return nil
	}
	load, count := at.load, len(at.jobs)
	for load > at.Capacity {
		count--
		load -= p.list.weightOf(at.jobs[count])
	}
	return at.keep(p.list, count)
}

// surplus removes the jobs above the balance of equal jobs, from the tails. If some workers have one job more than others, those that
// already have it keep it.
func (p *pass) surplus(open []*seat, floor, extra int) (shed []int32) {
	for _, at := range open {
		quota := floor
		if len(at.jobs) > floor && extra > 0 {
			quota++
			extra--
		}
		if len(at.jobs) > quota {
			shed = append(shed, at.keep(p.list, quota)...)
		}
	}
	return shed
}

// waterline returns how many equal jobs every worker with enough capacity gets, and how many workers get one more.
func (p *pass) waterline(open []*seat, jobs int) (floor, extra int) {
	if len(open) == 0 {
		return 0, 0
	}
	if most := p.most(open[0]); p.even && jobs <= most*len(open) {
		return jobs / len(open), jobs % len(open)
	}
	poured := func(level int) int {
		sum := 0
		for _, at := range open {
			sum += min(level, p.most(at))
		}
		return sum
	}
	// The level is the highest for which there are enough jobs.
	low, high := 0, jobs
	for low < high {
		middle := low + (high-low+1)/2
		if poured(middle) <= jobs {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low, jobs - poured(low)
}

// most returns how many equal jobs a worker could hold.
func (p *pass) most(at *seat) int {
	if at.Capacity == 0 || p.list.weight == 0 {
		return p.list.Len()
	}
	return at.Capacity / p.list.weight
}

// level moves jobs from the tail of the most loaded worker to the least loaded one, until no worker is above the latter by more than the
// largest of its own jobs. The lowest load never decreases, so a worker that was level stays level, and no job moves twice.
func (p *pass) level(open []*seat) (moved bool) {
	low, high := heapOf(open, lowest, leastLoaded), heapOf(open, highest, mostLoaded)
	for len(high.items) > 0 {
		giver := high.items[0]
		if giver.load-low.items[0].load <= p.list.lightest {
			break // and so are all others
		}
		last := giver.last()
		taker := p.roomiest(low, p.list.weightOf(last))
		if taker == nil || giver.load-taker.load <= p.largest(giver) {
			high.remove(giver)
			continue
		}
		giver.keep(p.list, len(giver.jobs)-1)
		taker.give(p.list, last)
		for _, changed := range []*seat{giver, taker} {
			low.fix(changed)
			high.fix(changed)
		}
		moved = true
	}
	return moved
}

// last returns the worker's last job in list order.
func (s *seat) last() int32 {
	s.settle()
	s.sorted = len(s.jobs)
	return s.jobs[len(s.jobs)-1]
}

func (p *pass) largest(at *seat) int {
	if len(at.jobs) == 0 {
		return 0
	}
	return p.list.weightOf(slices.MaxFunc(at.jobs, func(a, b int32) int { return cmp.Compare(p.list.weightOf(a), p.list.weightOf(b)) }))
}
