package main

import (
	"slices"

	"github.com/buraksezer/consistent"
	"github.com/dgryski/go-jump"
	"github.com/dgryski/go-maglev"
	"github.com/dgryski/go-rendezvous"
	ring "stathat.com/c/consistent"

	"github.com/swarm-io/swarm-operator/internal/assign"
)

// contender is an algorithm. What prepare does is not timed, what it returns is.
type contender struct {
	name     string
	most     int // workers, beyond which it does not end within seconds; 0 for no limit
	shuffled bool
	prepare  func(in pool, before *answer) func() answer
}

const kafka = "cooperative-sticky"

// contenders are ours, then the others, each used as documented.
var contenders = append(slices.Clone(ours),
	contender{name: kafka, prepare: balanced},
	contender{name: "go-jump", prepare: jumped},
	contender{name: "go-maglev", prepare: looked},
	contender{name: "go-rendezvous", most: 1_000, prepare: met},
	contender{name: "buraksezer/consistent", most: 1_000, prepare: located},
	contender{name: "stathat/consistent", most: 100, prepare: ringed},
)

// ours are the strategies of the engine.
var ours = []contender{
	{name: sticky, prepare: planned(assign.Sticky, 0)},
	{name: "Sticky, reading the list", prepare: fromNames},
	{name: "Contiguous", prepare: planned(assign.Contiguous, 0)},
	{name: "Hashed, 5 %", shuffled: true, prepare: planned(assign.Hashed, 5)},
	{name: "Hashed, 10 %", shuffled: true, prepare: planned(assign.Hashed, 10)},
}

// planned is the engine. Without a previous answer the list is a new one, so that nothing is known about it.
func planned(strategy assign.Strategy, imbalance int) func(pool, *answer) func() answer {
	return func(in pool, before *answer) func() answer {
		input := assign.Input{Jobs: in.list, Workers: in.workers, Strategy: strategy, ImbalancePercent: imbalance}
		if before != nil {
			input.Previous = before.kept
		} else if strategy == assign.Hashed {
			input.Jobs, _ = assign.NewJobList(asJobs(in.names))
		}
		return func() answer { return byRevision(assign.Plan(input).Next, len(in.names)) }
	}
}

func asJobs(names []string) []assign.Job {
	jobs := make([]assign.Job, len(names))
	for n := range names {
		jobs[n] = assign.Job{Name: names[n], Weight: 1}
	}
	return jobs
}

// fromNames is Sticky with all costs of a restart: the list is checked, and the previous revision is only known as stored.
func fromNames(in pool, before *answer) func() answer {
	jobs := asJobs(in.names)
	var stored []assign.Share
	if before != nil {
		stored = before.kept.Shares()
	}
	return func() answer {
		list, _ := assign.NewJobList(jobs)
		input := assign.Input{Jobs: list, Workers: in.workers}
		if stored != nil {
			input.Previous = assign.Restore(stored, 0)
		}
		return byRevision(assign.Plan(input).Next, len(in.names))
	}
}

// hash is FNV-1a with the finalizer of splitmix64, which the other libraries leave to their caller.
func hash(name string) uint64 {
	sum := uint64(14695981039346656037)
	for n := range len(name) {
		sum = (sum ^ uint64(name[n])) * 1099511628211
	}
	sum = (sum ^ sum>>30) * 0xbf58476d1ce4e5b9
	sum = (sum ^ sum>>27) * 0x94d049bb133111eb
	return sum ^ sum>>31
}

func jumped(in pool, _ *answer) func() answer {
	return func() answer {
		places := make([]int32, len(in.names))
		for n, name := range in.names {
			places[n] = jump.Hash(hash(name), len(in.workers))
		}
		return byPlace(places, in.workers)
	}
}

// looked uses a table of a hundred places for each worker, or the largest table available.
func looked(in pool, _ *answer) func() answer {
	names := in.workerNames()
	return func() answer {
		places := uint64(maglev.SmallM)
		if 100*len(names) > maglev.SmallM {
			places = maglev.BigM
		}
		table := maglev.New(names, places)
		owners := make([]int32, len(in.names))
		for n, name := range in.names {
			owners[n] = int32(table.Lookup(hash(name)))
		}
		return byPlace(owners, in.workers)
	}
}

func met(in pool, _ *answer) func() answer {
	names := in.workerNames()
	return func() answer {
		meeting := rendezvous.New(names, hash)
		owners := make([]string, len(in.names))
		for n, name := range in.names {
			owners[n] = meeting.Lookup(name)
		}
		return byName(owners)
	}
}

type member string

func (m member) String() string { return string(m) }

type hasher struct{}

func (hasher) Sum64(data []byte) uint64 { return hash(string(data)) }

// located uses the parameters of OpenTelemetry's target allocator.
func located(in pool, _ *answer) func() answer {
	members := make([]consistent.Member, len(in.workers))
	for n := range in.workers {
		members[n] = member(in.workers[n].Name)
	}
	return func() answer {
		found := consistent.New(members, consistent.Config{PartitionCount: 1061, ReplicationFactor: 5, Load: 1.1, Hasher: hasher{}})
		owners := make([]string, len(in.names))
		for n, name := range in.names {
			owners[n] = found.LocateKey([]byte(name)).String()
		}
		return byName(owners)
	}
}

func ringed(in pool, _ *answer) func() answer {
	names := in.workerNames()
	return func() answer {
		circle := ring.New()
		circle.Set(names)
		owners := make([]string, len(in.names))
		for n, name := range in.names {
			owners[n], _ = circle.Get(name) // fails only when it is empty
		}
		return byName(owners)
	}
}
