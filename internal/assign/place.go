package assign

import (
	"cmp"
	"slices"
)

// fill places equal jobs, each on the least loaded worker with room, lowest ordinal first, level by level.
func (p *pass) fill(open []*seat, jobs []int32) (left []int32) {
	if len(jobs) == 0 {
		return nil
	}
	waiting := slices.Clone(open)
	slices.SortFunc(waiting, func(a, b *seat) int {
		return cmp.Or(cmp.Compare(len(a.jobs), len(b.jobs)), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	var filling []*seat
	for len(jobs) > 0 {
		if len(filling) == 0 && len(waiting) == 0 {
			return jobs
		}
		filling, waiting = admit(filling, waiting)
		for _, at := range filling {
			if len(jobs) > 0 && len(at.jobs) < p.most(at) {
				at.give(p.list, jobs[0])
				jobs = jobs[1:]
			}
		}
		filling = slices.DeleteFunc(filling, func(s *seat) bool { return len(s.jobs) >= p.most(s) })
	}
	return nil
}

// admit adds waiting seats that have as few jobs as those being filled, which all have the same number.
func admit(filling, waiting []*seat) (next, rest []*seat) {
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
		slices.SortFunc(filling, func(a, b *seat) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	}
	return filling, waiting[count:]
}

// pour places jobs of different weights in order, each on the least loaded worker with room, lowest ordinal first.
func (p *pass) pour(open []*seat, jobs []int32) (left []int32) {
	low := heapOf(open, lowest, leastLoaded)
	tooMuch := 0 // a weight for which no worker has room: room only shrinks here
	for _, job := range jobs {
		weight := p.list.weightOf(job)
		at := (*seat)(nil)
		if tooMuch == 0 || weight < tooMuch {
			at = p.roomiest(low, weight)
		}
		if at != nil {
			at.give(p.list, job)
			low.fix(at)
			continue
		}
		left = append(left, job)
		if tooMuch == 0 || weight < tooMuch {
			tooMuch = weight
		}
	}
	return left
}

// roomiest returns the least loaded worker that has room for a weight, or nil.
func (p *pass) roomiest(low *heap, weight int) *seat {
	if len(low.items) == 0 {
		return nil
	}
	top := low.items[0]
	if top.fits(weight) {
		return top
	}
	if p.even {
		return nil
	}
	return low.first(func(s *seat) bool { return s.fits(weight) })
}

// deal gives each worker a contiguous piece of the list.
func (p *pass) deal(open []*seat, jobs []int32) {
	if len(open) == 0 {
		p.left = jobs
		return
	}
	if p.list.weight > 0 {
		p.left = p.cut(open, jobs)
		return
	}
	total := p.list.load(jobs)
	passed := 0
	for _, job := range jobs {
		weight := p.list.weightOf(job)
		// The middle of a job decides which worker's part of the total weight it is in.
		open[(2*passed+weight)*len(open)/(2*total)].give(p.list, job)
		passed += weight
	}
	var floating []int32
	for _, at := range open {
		floating = append(floating, p.overload(at)...)
	}
	slices.Sort(floating)
	p.left = p.pour(open, floating)
}

// cut deals equal jobs: pieces differ by at most one, and the first ones are longer.
func (p *pass) cut(open []*seat, jobs []int32) (left []int32) {
	floor, extra := p.waterline(open, len(jobs))
	for _, at := range open {
		quota := min(floor, p.most(at))
		if extra > 0 && p.most(at) > floor {
			quota++
			extra--
		}
		at.jobs, at.own, at.sorted = slices.Clone(jobs[:quota]), true, quota
		at.load = p.list.weight * quota
		jobs = jobs[quota:]
	}
	return jobs
}

// contiguous ignores history, so that the worker of a job follows from the list alone.
func (p *pass) contiguous() {
	p.forget()
	p.dedicate(p.list.dedicated, p.last)
	p.deal(p.open(), p.homeless())
}
