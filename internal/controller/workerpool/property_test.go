package workerpool

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/swarm-io/swarm-operator/internal/pool/plan"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property"
)

// action is an event in the life of a pool.
type action func(t *rapid.T, s *scenario)

// A scenario is a pool with faults. Leaders die after any write and are followed by others, late ones write what they had planned, and
// Creates are carried out long after their leader died. Caches of pods, ConfigMaps and revisions are stale, and so are kubelets where
// admission gives new pods their version. Such a pod may be stored long after its admission. ConfigMaps are deleted, that of all workers
// or of one. Pods are replaced, leave their workload or are orphaned with it, files arrive late, workers answer late or not at all, and
// processes with a Lease outlive their pods.
type scenario struct {
	*fakeCluster
	leader       *leader
	formerLeader *leader // a former leader, with its plan
	plan         plan.Plan
	term         int64
}

func (s *scenario) drawWorker(t *rapid.T) *fakeWorker {
	names := slices.Sorted(maps.Keys(s.pods))
	if len(names) == 0 {
		return nil
	}
	return s.pods[rapid.SampledFrom(names).Draw(t, "pod")]
}

// admitMissing admits the first missing pod of the StatefulSet. Its controller waits for the response before it creates another.
func (s *scenario) admitMissing() {
	for n := range s.replicas {
		if name := fmt.Sprintf("w-%d", n); !s.usesSlots() && len(s.pendingCreates) == 0 && s.pods[name] == nil {
			s.beginCreate(name)
		}
	}
}

func (s *scenario) startNextLeader() {
	s.term++
	s.leader = newLeader(s.term)
	s.leader.connect(s.fakeCluster)
	s.logf("leader of term %d", s.term)
}

var actions = map[string]action{
	"reconcile":      func(_ *rapid.T, s *scenario) { s.reconcile(s.leader, unlimitedWrites) },
	"reconcileAgain": func(_ *rapid.T, s *scenario) { s.reconcile(s.leader, unlimitedWrites) },
	"die": func(t *rapid.T, s *scenario) {
		s.reconcile(s.leader, rapid.IntRange(0, 9).Draw(t, "writes"))
		s.startNextLeader()
	},
	"fallBehind": func(_ *rapid.T, s *scenario) { s.leader.cachedPods = s.ownedPods() },
	"fallBehindOnNodes": func(_ *rapid.T, s *scenario) {
		if s.admissionEnabled || s.usesSlots() {
			s.freezeKubelets()
		}
	},
	"fallBehindOnConfigs":   func(_ *rapid.T, s *scenario) { s.leader.freezeCaches() },
	"fallBehindOnRevisions": func(_ *rapid.T, s *scenario) { s.leader.freezeRevisionCache() },
	"catchUpOnConfigs":      func(_ *rapid.T, s *scenario) { s.leader.refreshCaches() },
	"dieAndLeadFromOldCaches": func(t *rapid.T, s *scenario) { // the next leader's caches lack the last writes
		behind, pods := &fakeClient{server: s.server}, s.ownedPods()
		behind.freezeCaches()
		s.reconcile(s.leader, rapid.IntRange(0, 9).Draw(t, "writes"))
		s.startNextLeader()
		s.leader.cachedPods = pods
		s.leader.copyCachesOf(behind)
	},
	"carryOutLate": func(t *rapid.T, s *scenario) { // a Create in progress when its leader died
		if len(s.server.lateCreates) > 0 {
			s.completeLateCreate(rapid.IntRange(0, len(s.server.lateCreates)-1).Draw(t, "Create"))
		}
	},
	"catchUpOnNodes": func(_ *rapid.T, s *scenario) { s.kubeletFiles = nil },
	"catchUp":        func(_ *rapid.T, s *scenario) { s.leader.cachedPods = nil },
	"depose": func(_ *rapid.T, s *scenario) { // it has decided, and writes when another leads
		if made, decided := s.decide(s.leader); decided {
			s.formerLeader, s.plan = s.leader, made
			s.startNextLeader()
		}
	},
	"writeLate": func(t *rapid.T, s *scenario) {
		if s.formerLeader != nil {
			s.plan.NewRevision = nil // the names of revisions are taken, or not read
			s.formerLeader.remainingWrites = rapid.IntRange(0, 3).Draw(t, "writes")
			s.apply(s.formerLeader, s.plan)
			s.formerLeader = nil
		}
	},
	"scale": func(t *rapid.T, s *scenario) {
		s.replicas = rapid.IntRange(0, 4).Draw(t, "replicas")
		s.logf("scale to %d", s.replicas)
	},
	"scalePool": func(t *rapid.T, s *scenario) {
		wanted := int32(rapid.IntRange(0, 4).Draw(t, "replicas"))
		s.pool.Spec.Replicas = &wanted
		s.logf("scale pool to %d", wanted)
	},
	"leaveScaling": func(_ *rapid.T, s *scenario) { s.pool.Spec.Replicas = nil },
	"raise":        func(_ *rapid.T, s *scenario) { s.createMissingPods() },
	"admit":        func(_ *rapid.T, s *scenario) { s.admitMissing() },
	"storeAdmitted": func(_ *rapid.T, s *scenario) {
		for _, name := range slices.Sorted(maps.Keys(s.pendingCreates)) {
			s.finishCreate(name)
		}
	},
	"prune": func(_ *rapid.T, s *scenario) { s.terminateExcessPods() },
	"jobs":  func(t *rapid.T, s *scenario) { s.setJobs(rapid.IntRange(0, 9).Draw(t, "jobs")) },
	"loseConfig": func(t *rapid.T, s *scenario) {
		if rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
			if names := slices.Sorted(maps.Keys(s.server.configs)); len(names) > 0 {
				s.deleteConfigMap(rapid.SampledFrom(names).Draw(t, "ConfigMap"))
			}
		}
	},
	"mount": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.syncFile(p)
		}
	},
	"load": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.loadFile(p)
			s.logf("%s loads, and runs %v", p.pod.Name, slices.Sorted(maps.Keys(p.runningJobs)))
		}
	},
	"restartContainer": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			p.runningJobs, p.response = map[string]bool{}, plan.AckResponse{}
		}
	},
	"ready": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			p.setReady(true, s.now)
		}
	},
	"unready": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			p.setReady(false, s.now)
		}
	},
	"silence": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			p.silent = !p.silent
		}
	},
	"terminate": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.terminatePod(p.pod.Name)
		}
	},
	"release": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.releasePod(p.pod.Name)
		}
	},
	"orphan": func(t *rapid.T, s *scenario) {
		if !s.usesSlots() && rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
			s.orphanPods()
		}
	},
	"adopt": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.adoptPod(p.pod.Name)
		}
	},
	"bury": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.removeTerminatedPod(p.pod.Name)
		}
	},
	"wait": func(t *rapid.T, s *scenario) {
		s.advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	},
	"waitBriefly": func(t *rapid.T, s *scenario) {
		s.advance(time.Duration(rapid.IntRange(1, 30).Draw(t, "tenths")) * 100 * time.Millisecond)
	},
	"vanish": func(t *rapid.T, s *scenario) {
		if p := s.drawWorker(t); p != nil {
			s.removePodKeepProcess(p.pod.Name)
		}
	},
	"cut": func(t *rapid.T, s *scenario) {
		if len(s.podlessWorkers) > 0 {
			rapid.SampledFrom(s.podlessWorkers).Draw(t, "ghost").partitioned = true
		}
	},
}

func TestNeverTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scenario{fakeCluster: newFakeCluster(rapid.IntRange(1, 9).Draw(t, "jobs"), rapid.IntRange(1, 4).Draw(t, "workers"))}
		if rapid.Bool().Draw(t, "deployment") {
			s.asDeployment()
		}
		s.admissionEnabled = rapid.Bool().Draw(t, "admission")
		if !s.usesSlots() && rapid.Bool().Draw(t, "PerWorker") { // Deployments cannot have it, and it requires admission
			withPerWorkerLayout(s.pool)
			s.admissionEnabled = true
		}
		if rapid.Bool().Draw(t, "leases") {
			s.leases = map[string]*fakeLease{}
		}
		s.startNextLeader()
		s.converge(t, s.leader)
		names := slices.Sorted(maps.Keys(actions))
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			actions[rapid.SampledFrom(names).Draw(t, "step")](t, s)
			s.requireOneOwner(t)
		}
		if s.pool.Spec.Replicas != nil {
			s.replicas = int(*s.pool.Spec.Replicas)
		}
		s.startNextLeader()
		s.converge(t, s.leader)
	})
}
