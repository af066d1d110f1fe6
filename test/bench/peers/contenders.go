package main

import (
	"slices"

	"github.com/buraksezer/consistent"
	"github.com/dgryski/go-jump"
	"github.com/dgryski/go-maglev"
	"github.com/dgryski/go-rendezvous"
	ring "stathat.com/c/consistent"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// algorithm is an algorithm. What prepare does is not timed, what it returns is.
type algorithm struct {
	name     string
	maxSize  int // workers, beyond which it does not end within seconds; 0 for no limit
	shuffled bool
	prepare  func(in pool, before *assignment) func() assignment
}

const kafka = "cooperative-sticky"

// algorithms are ours, then the others, each used as documented.
var algorithms = append(slices.Clone(ourAlgorithms),
	algorithm{name: kafka, prepare: runKafka},
	algorithm{name: "go-jump", prepare: runJumpHash},
	algorithm{name: "go-maglev", prepare: runMaglev},
	algorithm{name: "go-rendezvous", maxSize: 1_000, prepare: runRendezvous},
	algorithm{name: "buraksezer/consistent", maxSize: 1_000, prepare: runConsistentHash},
	algorithm{name: "stathat/consistent", maxSize: 100, prepare: runHashRing},
)

// ourAlgorithms are the strategies of the engine.
var ourAlgorithms = []algorithm{
	{name: sticky, prepare: runEngine(assign.Sticky, 0)},
	{name: "Sticky, reading the list", prepare: runEngineFromNames},
	{name: "Contiguous", prepare: runEngine(assign.Contiguous, 0)},
	{name: "Hashed, 5 %", shuffled: true, prepare: runEngine(assign.Hashed, 5)},
	{name: "Hashed, 10 %", shuffled: true, prepare: runEngine(assign.Hashed, 10)},
}

// runEngine is the engine. Without a previous answer the list is a new one, so that nothing is known about it.
func runEngine(strategy assign.Strategy, imbalance int) func(pool, *assignment) func() assignment {
	return func(in pool, before *assignment) func() assignment {
		input := assign.Input{Jobs: in.list, Workers: in.workers, Strategy: strategy, ImbalancePercent: imbalance}
		if before != nil {
			input.Previous = before.revision
		} else if strategy == assign.Hashed {
			input.Jobs, _ = assign.NewJobList(asJobs(in.names))
		}
		return func() assignment { return assignmentByRevision(assign.Plan(input).Next, len(in.names)) }
	}
}

func asJobs(names []string) []assign.Job {
	jobs := make([]assign.Job, len(names))
	for n := range names {
		jobs[n] = assign.Job{Name: names[n], Weight: 1}
	}
	return jobs
}

// runEngineFromNames is Sticky with all costs of a restart: the list is checked, and the previous revision is only known as stored.
func runEngineFromNames(in pool, before *assignment) func() assignment {
	jobs := asJobs(in.names)
	var shares []assign.Share
	if before != nil {
		shares = before.revision.Shares()
	}
	return func() assignment {
		list, _ := assign.NewJobList(jobs)
		input := assign.Input{Jobs: list, Workers: in.workers}
		if shares != nil {
			input.Previous = assign.Restore(shares, 0)
		}
		return assignmentByRevision(assign.Plan(input).Next, len(in.names))
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

func runJumpHash(in pool, _ *assignment) func() assignment {
	return func() assignment {
		places := make([]int32, len(in.names))
		for n, name := range in.names {
			places[n] = jump.Hash(hash(name), len(in.workers))
		}
		return assignmentByIndex(places, in.workers)
	}
}

// runMaglev uses a table of a hundred places for each worker, or the largest table available.
func runMaglev(in pool, _ *assignment) func() assignment {
	names := in.workerNames()
	return func() assignment {
		places := uint64(maglev.SmallM)
		if 100*len(names) > maglev.SmallM {
			places = maglev.BigM
		}
		table := maglev.New(names, places)
		owners := make([]int32, len(in.names))
		for n, name := range in.names {
			owners[n] = int32(table.Lookup(hash(name)))
		}
		return assignmentByIndex(owners, in.workers)
	}
}

func runRendezvous(in pool, _ *assignment) func() assignment {
	names := in.workerNames()
	return func() assignment {
		meeting := rendezvous.New(names, hash)
		owners := make([]string, len(in.names))
		for n, name := range in.names {
			owners[n] = meeting.Lookup(name)
		}
		return assignmentByName(owners)
	}
}

type member string

func (m member) String() string { return string(m) }

type hasher struct{}

func (hasher) Sum64(data []byte) uint64 { return hash(string(data)) }

// runConsistentHash uses the parameters of OpenTelemetry's target allocator.
func runConsistentHash(in pool, _ *assignment) func() assignment {
	members := make([]consistent.Member, len(in.workers))
	for n := range in.workers {
		members[n] = member(in.workers[n].Name)
	}
	return func() assignment {
		found := consistent.New(members, consistent.Config{PartitionCount: 1061, ReplicationFactor: 5, Load: 1.1, Hasher: hasher{}})
		owners := make([]string, len(in.names))
		for n, name := range in.names {
			owners[n] = found.LocateKey([]byte(name)).String()
		}
		return assignmentByName(owners)
	}
}

func runHashRing(in pool, _ *assignment) func() assignment {
	names := in.workerNames()
	return func() assignment {
		circle := ring.New()
		circle.Set(names)
		owners := make([]string, len(in.names))
		for n, name := range in.names {
			owners[n], _ = circle.Get(name) // fails only when it is empty
		}
		return assignmentByName(owners)
	}
}
