package assign

import (
	"cmp"
	"slices"
)

// hashed ignores history and the order of the list: it finds homes by jump hash, applies limits, and rehashes the jobs above them.
func (p *pass) hashed(imbalance int) {
	p.forget()
	hashes := p.list.hash()
	byHash := func(a, b int32) int {
		return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(p.list.jobs[a].Name, p.list.jobs[b].Name))
	}
	dedicated := slices.Clone(p.list.dedicated)
	slices.SortFunc(dedicated, byHash)
	p.dedicate(dedicated, p.preferred)
	open := p.open()
	if len(open) == 0 {
		p.left = p.homeless()
		return
	}
	if imbalance == 0 {
		imbalance = DefaultImbalance
	}
	limits := p.limits(open, imbalance)
	rest := p.trim(open, p.homes(open), limits)
	slices.SortFunc(rest, byHash)
	rest = p.scatter(open, rest, limits)
	p.left = p.pour(open, rest)
	slices.Sort(p.left)
	for _, at := range open {
		slices.Sort(at.jobs)
	}
}

// preferred returns the free worker that has the smallest hash with a dedicated job.
func (p *pass) preferred(job int32) (best *seat) {
	hash := p.list.hash()[job]
	for n := range p.seats {
		at := &p.seats[n]
		if at.hostable(p.list.weightOf(job)) && (best == nil || pair(hash, at.Ordinal) < pair(hash, best.Ordinal)) {
			best = at
		}
	}
	return best
}

// limits returns how much weight each worker may have. For equal jobs, the total including slack is split by ordinal into floor and
// ceiling. Otherwise there is one limit on a grid of 5 %, because a limit that followed every change of the total would move jobs
// everywhere.
func (p *pass) limits(open []*seat, imbalance int) []int {
	limits := make([]int, len(open))
	for n, at := range open {
		if p.list.weight > 0 {
			whole := ceiling(p.list.shared()*(100+imbalance), 100)
			limits[n] = p.list.weight * (whole / len(open))
			if n < whole%len(open) {
				limits[n] += p.list.weight
			}
		} else {
			limits[n] = onGrid(max(p.list.heaviest, ceiling(p.list.total*(100+imbalance), 100*len(open))))
		}
		if at.Capacity > 0 {
			limits[n] = min(limits[n], at.Capacity)
		}
	}
	return limits
}

func ceiling(a, b int) int { return (a + b - 1) / b }

// onGrid returns the first of 1, 2, 3 ... in steps of 5 % that is not below a number.
func onGrid(number int) int {
	grid := 1
	for grid < number {
		grid = max(grid+1, grid*105/100)
	}
	return grid
}

// ranked is a job with its hash for a worker.
type ranked struct {
	job  int32
	hash uint64
}

// trim leaves each worker the jobs with the smallest hashes up to its limit, and returns the others.
func (p *pass) trim(open []*seat, homes [][]int32, limits []int) (rest []int32) {
	var order []ranked
	for n, at := range open {
		at.jobs, at.own, at.load = homes[n], true, p.list.load(homes[n])
		if at.load <= limits[n] {
			continue
		}
		order = order[:0]
		for _, job := range at.jobs {
			order = append(order, ranked{job, pair(p.list.hash()[job], at.Ordinal)})
		}
		slices.SortFunc(order, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(p.list.jobs[a.job].Name, p.list.jobs[b.job].Name))
		})
		at.jobs, at.load = at.jobs[:0], 0
		for _, one := range order {
			if at.load+p.list.weightOf(one.job) <= limits[n] {
				at.give(p.list, one.job)
			} else {
				rest = append(rest, one.job)
			}
		}
	}
	return rest
}

// scatter matches jobs to free room in rounds, each with new hashes and half as many bins. Changes in one bin do not affect the others.
func (p *pass) scatter(open []*seat, jobs []int32, limits []int) []int32 {
	bins := 1
	for bins < len(open) {
		bins *= 2
	}
	for round := 1; bins > 0 && len(jobs) > 0; round++ {
		rooms := p.rooms(open, limits, bins, round)
		jobs = slices.DeleteFunc(jobs, func(job int32) bool {
			weight := p.list.weightOf(job)
			for _, n := range rooms[pair(p.list.hash()[job], -round)&uint64(bins-1)] {
				if open[n].load+weight <= limits[n] {
					open[n].give(p.list, job)
					return true
				}
			}
			return false
		})
		bins /= 2
	}
	return jobs
}

// rooms returns the workers with room in each bin.
func (p *pass) rooms(open []*seat, limits []int, bins, round int) [][]int32 {
	rooms := make([][]int32, bins)
	for n, at := range open {
		if at.load < limits[n] {
			bin := pair(mix(uint64(at.Ordinal)), round) & uint64(bins-1)
			rooms[bin] = append(rooms[bin], int32(n))
		}
	}
	return rooms
}
