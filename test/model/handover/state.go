// Package handover models how a standing job of a WorkerPool changes hands, over leader changes, replaced and relabelled pods, caches,
// files and writes that lag. docs/reference/workerpool.md describes the protocol, docs/explanation/model.md how to read this package.
//
// The model has one job and up to three pods. Pods 0 and 1 exist from the start; pod 2 comes when pod 0 is gone, or, for a Deployment,
// when pod 0 was released from its ReplicaSet. In a StatefulSet pod 2 has the name, and with it the list, of pod 0. In a Deployment it
// has a name, and a list, of its own. A leader plans from its caches and sends one write at a time.
package handover

const (
	pods     = 3
	workers  = 3 // names that lists are published for
	replicas = 2
)

// A list is what is published to a worker.
type list struct {
	version uint8
	hasJob  bool // it has the job
}

// A record is a worker's list, and whether the worker may hold the job because of an earlier list.
type record struct {
	list    list
	mayHold bool
}

// A config is the content of the pool's ConfigMaps. With layout Shared object 0 has all records; with PerWorker each has one.
type config struct {
	versions [workers]uint8 // resourceVersion of each object; 0: it does not exist
	records  [workers]record
	target   uint8 // worker that the newest revision assigns the job to
}

// A pod is a Pod object and the process in it.
type pod struct {
	exists, selected bool // the object; whether the workload's selector and owner reference match it
	terminating      bool
	failed           bool // phase Failed, as the control plane sets it for pods of lost nodes
	alive            bool // the process
	file             list // what the kubelet has written
	minVersion       uint8
	loadedVersion    uint8 // version of the list that the process has loaded; it answers with it
	runsJob          bool
	restarted        bool
	ended            bool // it existed and is gone
}

// A create is the admitted pod 2 that is not stored yet.
type create struct {
	active           bool
	minVersion       uint8
	publishedVersion uint8 // version of the worker's list that was published when it was admitted
}

// A write is a request in flight to the API server: an update, or a create.
type write struct {
	active, create bool
	object, base   uint8
	records        [workers]record
}

// A cache is a replica's view of the API server.
type cache struct {
	config config
	pods   uint8 // existing pods, as bits
}

type state struct {
	pods            [pods]pod
	create          create
	config          config
	previous        [workers]list // lists before the newest ones: a kubelet may still have them
	caches          [replicas]cache
	leader          uint8
	termBegun       bool  // the leader has begun its term
	mayHoldInMemory uint8 // workers that may hold the job, where only the leader remembers it
	write           write
	lateWrite       write // of the former leader
	remainingFaults Faults
	violation       Invariant
}

// Faults holds how often each fault or change may happen, or may still happen.
type Faults struct {
	Plans             uint8 // the pool gives the job to another worker
	LeaderChanges     uint8 // another replica leads; a write of the former leader may still be in flight
	Deletions         uint8 // a pod is deleted in order
	Releases          uint8 // the labels of a pod are changed, so that its workload releases it
	Orphanings        uint8 // the workload is deleted without its pods, and recreated
	LostNodes         uint8 // the phase of a pod becomes Failed, while its process lives on
	ContainerRestarts uint8
}

func bit(n uint8) uint8 { return 1 << n }
