package assign

import (
	"cmp"
	"slices"
)

// tries limits how often a job whose home is dead is rehashed before all workers are compared.
const tries = 64

// homes returns the jobs of each open worker before limits apply.
func (p *pass) homes(open []*seat) [][]int32 {
	alive := crowd(open)
	homes := make([][]int32, len(open))
	mean := p.list.shared()/len(open) + 1
	for job, hash := range p.list.hash() {
		if p.list.jobs[job].Dedicated {
			continue
		}
		home := alive.home(hash)
		if homes[home] == nil {
			homes[home] = make([]int32, 0, mean+mean/4)
		}
		homes[home] = append(homes[home], int32(job))
	}
	return homes
}

// ordinals finds the live worker with a given ordinal.
type ordinals struct {
	open   []*seat
	end    int     // one above the highest
	direct []int32 // by ordinal, unless ordinals are too sparse
}

func crowd(open []*seat) ordinals {
	o := ordinals{open: open, end: open[len(open)-1].Ordinal + 1}
	if o.end > 16*len(open)+1024 {
		return o
	}
	o.direct = slices.Repeat([]int32{nobody}, o.end)
	for n, at := range open {
		o.direct[at.Ordinal] = int32(n)
	}
	return o
}

func (o ordinals) alive(ordinal int) int32 {
	if o.direct != nil {
		return o.direct[ordinal]
	}
	n, found := slices.BinarySearchFunc(o.open, ordinal, func(s *seat, ordinal int) int { return cmp.Compare(s.Ordinal, ordinal) })
	if !found {
		return nobody
	}
	return int32(n)
}

// home returns the worker for a hash. Dead ordinals are skipped by rehashing; by position, all jobs after one would shift.
func (o ordinals) home(hash uint64) int32 {
	for range tries {
		if home := o.alive(jump(hash, o.end)); home != nobody {
			return home
		}
		hash = mix(hash)
	}
	best := 0
	for n := range o.open {
		if pair(hash, o.open[n].Ordinal) < pair(hash, o.open[best].Ordinal) {
			best = n
		}
	}
	return int32(best)
}
