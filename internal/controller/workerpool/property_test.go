package workerpool

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/internal/acknowledge"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

// step is an event in the life of a pool.
type step func(t *rapid.T, s *story)

// A story is a pool with faults. Leaders die after any write and are followed by others, late ones write what they had planned, and
// Creates are carried out long after their leader died. Caches of pods, ConfigMaps and revisions are stale, and so are kubelets where
// admission gives new pods their version. Such a pod may be stored long after its admission. ConfigMaps are deleted, that of all workers
// or of one. Pods are replaced, leave their workload or are orphaned with it, files arrive late, workers answer late or not at all, and
// processes with a Lease outlive their pods.
type story struct {
	*cluster
	leader *leader
	late   *leader // a former leader, with its plan
	plan   Plan
	term   int64
}

func (s *story) anyProcess(t *rapid.T) *process {
	names := slices.Sorted(maps.Keys(s.pods))
	if len(names) == 0 {
		return nil
	}
	return s.pods[rapid.SampledFrom(names).Draw(t, "pod")]
}

// admitMissing admits the first missing pod of the StatefulSet. Its controller waits for the response before it creates another.
func (s *story) admitMissing() {
	for n := range s.replicas {
		if name := fmt.Sprintf("w-%d", n); !s.slotted() && len(s.creates) == 0 && s.pods[name] == nil {
			s.begin(name)
		}
	}
}

func (s *story) succeed() {
	s.term++
	s.leader = newLeader(s.term)
	s.leader.connect(s.cluster)
	s.note("leader of term %d", s.term)
}

var steps = map[string]step{
	"reconcile":      func(_ *rapid.T, s *story) { s.reconcile(s.leader, lives) },
	"reconcileAgain": func(_ *rapid.T, s *story) { s.reconcile(s.leader, lives) },
	"die": func(t *rapid.T, s *story) {
		s.reconcile(s.leader, rapid.IntRange(0, 9).Draw(t, "writes"))
		s.succeed()
	},
	"fallBehind": func(_ *rapid.T, s *story) { s.leader.cached = s.list() },
	"fallBehindOnNodes": func(_ *rapid.T, s *story) {
		if s.admits || s.slotted() {
			s.fallBehind()
		}
	},
	"fallBehindOnConfigs":   func(_ *rapid.T, s *story) { s.leader.fallBehind() },
	"fallBehindOnRevisions": func(_ *rapid.T, s *story) { s.leader.fallBehindOnRevisions() },
	"catchUpOnConfigs":      func(_ *rapid.T, s *story) { s.leader.catchUp() },
	"dieAndLeadFromOldCaches": func(t *rapid.T, s *story) { // the next leader's caches lack the last writes
		behind, pods := &connection{server: s.server}, s.list()
		behind.fallBehind()
		s.reconcile(s.leader, rapid.IntRange(0, 9).Draw(t, "writes"))
		s.succeed()
		s.leader.cached = pods
		s.leader.behindAs(behind)
	},
	"carryOutLate": func(t *rapid.T, s *story) { // a Create in progress when its leader died
		if len(s.server.late) > 0 {
			s.carryOut(rapid.IntRange(0, len(s.server.late)-1).Draw(t, "Create"))
		}
	},
	"catchUpOnNodes": func(_ *rapid.T, s *story) { s.kubelet = nil },
	"catchUp":        func(_ *rapid.T, s *story) { s.leader.cached = nil },
	"depose": func(_ *rapid.T, s *story) { // it has decided, and writes when another leads
		if made, decided := s.decide(s.leader); decided {
			s.late, s.plan = s.leader, made
			s.succeed()
		}
	},
	"writeLate": func(t *rapid.T, s *story) {
		if s.late != nil {
			s.plan.Revision = nil // the names of revisions are taken, or not read
			s.late.writes = rapid.IntRange(0, 3).Draw(t, "writes")
			s.apply(s.late, s.plan)
			s.late = nil
		}
	},
	"scale": func(t *rapid.T, s *story) {
		s.replicas = rapid.IntRange(0, 4).Draw(t, "replicas")
		s.note("scale to %d", s.replicas)
	},
	"scalePool": func(t *rapid.T, s *story) {
		wanted := int32(rapid.IntRange(0, 4).Draw(t, "replicas"))
		s.pool.Spec.Replicas = &wanted
		s.note("scale pool to %d", wanted)
	},
	"leaveScaling": func(_ *rapid.T, s *story) { s.pool.Spec.Replicas = nil },
	"raise":        func(_ *rapid.T, s *story) { s.raise() },
	"admit":        func(_ *rapid.T, s *story) { s.admitMissing() },
	"storeAdmitted": func(_ *rapid.T, s *story) {
		for _, name := range slices.Sorted(maps.Keys(s.creates)) {
			s.store(name)
		}
	},
	"prune": func(_ *rapid.T, s *story) { s.prune() },
	"jobs":  func(t *rapid.T, s *story) { s.want(rapid.IntRange(0, 9).Draw(t, "jobs")) },
	"loseConfig": func(t *rapid.T, s *story) {
		if rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
			if names := slices.Sorted(maps.Keys(s.server.configs)); len(names) > 0 {
				s.lose(rapid.SampledFrom(names).Draw(t, "ConfigMap"))
			}
		}
	},
	"mount": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.mount(p)
		}
	},
	"load": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.load(p)
			s.note("%s loads, and runs %v", p.pod.Name, slices.Sorted(maps.Keys(p.running)))
		}
	},
	"restartContainer": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			p.running, p.answer = map[string]bool{}, acknowledge.Response{}
		}
	},
	"ready": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			p.ready(true, s.now)
		}
	},
	"unready": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			p.ready(false, s.now)
		}
	},
	"silence": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			p.unheeding = !p.unheeding
		}
	},
	"terminate": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.terminate(p.pod.Name)
		}
	},
	"release": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.release(p.pod.Name)
		}
	},
	"orphan": func(t *rapid.T, s *story) {
		if !s.slotted() && rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
			s.orphan()
		}
	},
	"adopt": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.adopt(p.pod.Name)
		}
	},
	"bury": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.bury(p.pod.Name)
		}
	},
	"wait": func(t *rapid.T, s *story) {
		s.pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	},
	"waitBriefly": func(t *rapid.T, s *story) {
		s.pass(time.Duration(rapid.IntRange(1, 30).Draw(t, "tenths")) * 100 * time.Millisecond)
	},
	"vanish": func(t *rapid.T, s *story) {
		if p := s.anyProcess(t); p != nil {
			s.vanish(p.pod.Name)
		}
	},
	"cut": func(t *rapid.T, s *story) {
		if len(s.ghosts) > 0 {
			rapid.SampledFrom(s.ghosts).Draw(t, "ghost").cut = true
		}
	},
}

func TestNeverTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &story{cluster: newCluster(rapid.IntRange(1, 9).Draw(t, "jobs"), rapid.IntRange(1, 4).Draw(t, "workers"))}
		if rapid.Bool().Draw(t, "deployment") {
			s.deployed()
		}
		s.admits = rapid.Bool().Draw(t, "admission")
		if !s.slotted() && rapid.Bool().Draw(t, "PerWorker") { // Deployments cannot have it, and it requires admission
			perWorker(s.pool)
			s.admits = true
		}
		if rapid.Bool().Draw(t, "leases") {
			s.leases = map[string]*testimony{}
		}
		s.succeed()
		s.settle(t, s.leader)
		names := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			steps[rapid.SampledFrom(names).Draw(t, "step")](t, s)
			s.owners(t)
		}
		if s.pool.Spec.Replicas != nil {
			s.replicas = int(*s.pool.Spec.Replicas)
		}
		s.succeed()
		s.settle(t, s.leader)
	})
}
