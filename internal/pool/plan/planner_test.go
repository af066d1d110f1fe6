package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/pool/assign"
	"github.com/swarm-io/swarm-operator/internal/pool/codec"
)

// newWorkload returns a StatefulSet "w" or a Deployment with so many replicas.
func newWorkload(kind v1alpha1.WorkloadKind, replicas int) Workload {
	return Workload{Object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "w"}}, Kind: kind, Replicas: replicas}
}

// newPublished returns a config that lists job a for w-0, whose former list had the earlier jobs.
func newPublished(earlier ...string) Published {
	entry := codec.LedgerEntry{}
	if len(earlier) > 0 {
		entry.Earlier = []assign.ListVersion{{Version: 1, Jobs: earlier}}
	}
	return Published{
		Version: 2, Entries: []codec.FileEntry{{Worker: "w-0", Version: 2, Jobs: []string{"a"}}}, Ledger: codec.Ledger{"w-0": entry},
	}
}

// Jobs of a missing worker are given to others. A process may have outlived its pod, so its Lease has to be read first.
func TestLeasesAreReadBeforeJobsOfAbsentWorkersAreFreed(t *testing.T) {
	set := newWorkload(v1alpha1.WorkloadStatefulSet, 1)
	successor := PodObservation{ListVersion: 2, PodUID: "uid-before"}
	for reason, c := range map[string]struct {
		config        Published
		present, gone bool
		verified      bool
		seen          PodObservation
		want          bool
	}{
		"the API server has no such pod":              {newPublished(), false, true, true, PodObservation{}, true},
		"only the cache says that the pod is gone":    {newPublished(), false, false, true, PodObservation{}, false},
		"only the cache says so, it was to give up b": {newPublished("b"), false, false, false, PodObservation{}, false},
		"pod is there": {newPublished("b"), true, false, true, PodObservation{}, false},
		"another pod has replaced it, which gave up b":  {newPublished("b"), true, false, true, successor, true},
		"another pod, and the cache says so":            {newPublished("b"), true, false, false, successor, true},
		"another pod has replaced it, with equal lists": {newPublished(), true, false, true, successor, false},
	} {
		t.Run(reason, func(t *testing.T) {
			snapshot, known := Snapshot{Workload: set, Published: c.config, PodsVerified: c.verified,
				GoneWorkers: map[string]bool{"w-0": c.gone}}, &Clocks{}
			known.ObservedPods.Set("w-0", c.seen)
			if c.present {
				snapshot.Pods = []*corev1.Pod{podNamed("w-0")}
			}
			if got := len(snapshot.GoneHolders(known)) == 1; got != c.want {
				t.Errorf("the Lease is read: %t", got)
			}
		})
	}
}

// The cache may be stale. A pod counts as gone, or as new, only after a read from the API server.
func TestAbsenceIsVerifiedWhenItMatters(t *testing.T) {
	replaced := newPublished()
	replaced.Ledger["w-0"] = codec.LedgerEntry{PodUID: "uid-before"}
	set := v1alpha1.WorkloadStatefulSet
	for reason, c := range map[string]struct {
		of          Workload
		config      Published
		present     bool
		acknowledge bool
		seen        PodObservation
		want        bool
	}{
		"pod is there":                            {newWorkload(set, 1), newPublished(), true, true, PodObservation{}, false},
		"pod is gone and expected back":           {newWorkload(set, 1), newPublished(), false, true, PodObservation{}, false},
		"pod is gone for good":                    {newWorkload(set, 0), newPublished(), false, true, PodObservation{}, true},
		"pod is gone and may hold b":              {newWorkload(set, 1), newPublished("b"), false, true, PodObservation{}, true},
		"pod must be replaced and can be asked":   {newWorkload(set, 1), replaced, true, true, PodObservation{}, false},
		"pod must be replaced and cannot":         {newWorkload(set, 1), replaced, true, false, PodObservation{}, true},
		"pod must be replaced and was seen":       {newWorkload(set, 1), replaced, true, false, PodObservation{2, "uid-w-0"}, false},
		"pod was seen with an earlier version":    {newWorkload(set, 1), replaced, true, false, PodObservation{1, "uid-w-0"}, true},
		"pod cannot be asked and need not change": {newWorkload(set, 1), newPublished(), true, false, PodObservation{}, false},
	} {
		t.Run(reason, func(t *testing.T) {
			pool, snapshot, known := newPool(), Snapshot{Workload: c.of, Published: c.config}, &Clocks{}
			known.ObservedPods.Set("w-0", c.seen)
			if !c.acknowledge {
				pool.Spec.Refresh.Acknowledge = nil
			}
			if c.present {
				snapshot.Pods = []*corev1.Pod{podNamed("w-0")}
			}
			if got := snapshot.NeedsLiveRead(pool, known); got != c.want {
				t.Errorf("verified: %t", got)
			}
		})
	}
}

// A pod seen after its list was published is remembered until the next list: only its successor is known to have started with that list.
func TestPodIsRememberedOncePerVersion(t *testing.T) {
	known := &Clocks{}
	snapshot := Snapshot{Published: newPublished(), Pods: []*corev1.Pod{podNamed("w-0")}}
	snapshot.RecordPods(known)
	successor := podNamed("w-0")
	successor.UID = "uid-after"
	snapshot.Pods = []*corev1.Pod{successor}
	if snapshot.RecordPods(known); known.ObservedPods["w-0"] != (PodObservation{2, "uid-w-0"}) {
		t.Errorf("remembered %+v", known.ObservedPods["w-0"])
	}
	snapshot.Published.Entries[0].Version = 3
	if snapshot.RecordPods(known); known.ObservedPods["w-0"] != (PodObservation{3, "uid-after"}) {
		t.Errorf("remembered %+v of the next version", known.ObservedPods["w-0"])
	}
}

// A pod that cannot be asked is replaced when it loses a job that another worker gets, or when the policy says so.
func TestPodIsReplacedWhenNothingElseProvesThatItLostAJob(t *testing.T) {
	type change func(*v1alpha1.WorkerPoolSpec)
	auto := func(spec *v1alpha1.WorkerPoolSpec) { spec.Refresh.Acknowledge = nil }
	with := func(more change) change { return func(spec *v1alpha1.WorkerPoolSpec) { auto(spec); more(spec) } }
	for reason, c := range map[string]struct {
		change change
		jobs   []string
		want   bool
	}{
		"it loses a job":            {auto, []string{"a"}, true},
		"it loses everything":       {auto, nil, true},
		"it keeps what it may hold": {auto, []string{"a", "b"}, false},
		"it gains a job":            {auto, []string{"a", "b", "c"}, false},
		"it can be asked":           {func(*v1alpha1.WorkerPoolSpec) {}, []string{"a"}, false},
		"it reloads by itself": {with(func(s *v1alpha1.WorkerPoolSpec) { s.Refresh.Policy = v1alpha1.RefreshHotReload }), []string{"a"},
			false},
		"policy Restart": {func(s *v1alpha1.WorkerPoolSpec) { s.Refresh.Policy = v1alpha1.RefreshRestart }, []string{"a", "b"},
			true},
		"jobs may run twice, Overlap": {with(func(s *v1alpha1.WorkerPoolSpec) { s.Handoff = v1alpha1.HandoffOverlap }), []string{"a"}, false},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := newPool()
			c.change(&pool.Spec)
			d := &planner{pool: pool, podsByName: map[string]*corev1.Pod{"w-0": podNamed("w-0")}}
			d.snapshot.Published.Ledger = codec.Ledger{"w-0": {PodUID: "uid-before"}, "w-1": {PodUID: "uid-w-1"}}
			d.records = []assign.Record{{Worker: "w-0", PodUID: "uid-w-0", Lists: []assign.ListVersion{{Version: 1, Jobs: []string{"a", "b"}}}}}
			want := map[string]string{"w-0": "", "w-1": "uid-w-1"}
			if c.want {
				want["w-0"] = "uid-w-0"
			}
			if got := d.podsToReplace([]assign.Share{{Worker: "w-0", Jobs: c.jobs}}); !maps.Equal(got, want) {
				t.Errorf("pods to replace: %v, want %v", got, want)
			}
		})
	}
}

// A config that is gone is rebuilt so that no worker gets a job that another may hold.
func TestLostConfigIsRebuiltFromRevisions(t *testing.T) {
	revision := func(number, version int64, first, second []string) StoredRevision {
		return StoredRevision{Number: number, Data: codec.Revision{Version: version, Workers: []codec.RevisionShare{
			{Worker: "w-0", Ordinal: 0, Version: version, Jobs: first}, {Worker: "w-1", Ordinal: 1, Version: version, Jobs: second},
		}}}
	}
	history := []StoredRevision{
		revision(1, 1, []string{"a"}, []string{"b", "c"}), revision(2, 2, []string{"a", "b"}, []string{"c"}),
		revision(3, 4, []string{"b"}, []string{"c", "a"}),
	}
	single := StoredRevision{Number: 1, Data: codec.Revision{Version: 1,
		Workers: []codec.RevisionShare{{Worker: "w-0", Version: 1, Jobs: []string{"a", "b"}}}}}
	grown := []StoredRevision{single, revision(2, 3, []string{"a"}, []string{"b"})}
	shrunk := []StoredRevision{revision(1, 1, []string{"a"}, []string{"b"}), single}
	shrunk[1].Number, shrunk[1].Data.Version = 2, 3
	pods := []*corev1.Pod{podNamed("w-0")}
	pods[0].Annotations = map[string]string{v1alpha1.AnnotationConfigVersion: "9"}
	foreign := Published{Modified: true, Version: 20, Entries: []codec.FileEntry{{Worker: "w-1", Version: 20, Jobs: []string{"b"}}},
		Ledger: codec.Ledger{"w-1": {Ordinal: 1}}}
	for reason, c := range map[string]struct {
		w                  Snapshot
		converged, version int64
		lists              string // of w-0 and w-1
		held               string // what else they may hold
		fileVersion        int64
	}{
		"a worker had yet to get its": {Snapshot{History: grown}, 1, 1, "a | ", "b | b", 4},
		"a worker was to give up all": {Snapshot{History: shrunk}, 1, 1, "a | ", "b | b", 4},
		"no revision":                 {Snapshot{}, 0, 7, "", "", 7},
		"the newest had converged":    {Snapshot{History: history}, 3, 4, "b | c a", "", 4},
		"the newest was on its way":   {Snapshot{History: history}, 2, 3, "b | c", "a | a", 5},
		"two were on their way":       {Snapshot{History: history}, 1, 1, " | c", "a b | b a", 5},
		"it had converged otherwise":  {Snapshot{History: history}, 3, 5, "b | c a", "", 6},
		"pods know a later version":   {Snapshot{History: history, Pods: pods}, 2, 3, "b | c", "a | a", 10},
		"another has written a list":  {Snapshot{History: history, Published: foreign}, 3, 4, "b | ", " | c a b", 21},
		"none was known to converge":  {Snapshot{History: history[:1]}, 0, 0, "a | b c", "", 2},
		"status knows a later number": {Snapshot{History: history[:1]}, 0, 30, "a | b c", "", 31},
	} {
		t.Run(reason, func(t *testing.T) {
			pool := newPool()
			pool.Status.ConvergedRevision, pool.Status.Version = c.converged, c.version
			rebuilt := c.w.RebuildConfig(pool)
			file, ledger := rebuilt.File, rebuilt.Ledger
			var lists, earlierJobs []string
			for n, entry := range file.Workers {
				lists = append(lists, strings.Join(entry.Jobs, " "))
				var earlier []string
				for _, list := range ledger[entry.Worker].Earlier {
					for _, job := range list.Jobs {
						if !slices.Contains(earlier, job) {
							earlier = append(earlier, job)
						}
					}
				}
				earlierJobs = append(earlierJobs, strings.Join(earlier, " "))
				if ledger[entry.Worker].Ordinal != n {
					t.Errorf("%s has ordinal %d", entry.Worker, ledger[entry.Worker].Ordinal)
				}
			}
			if got := strings.Join(lists, " | "); got != c.lists || file.Version != c.fileVersion {
				t.Errorf("version %d: lists %q, want %q of version %d", file.Version, got, c.lists, c.fileVersion)
			}
			if got := strings.Join(earlierJobs, " | "); strings.Trim(got, " |") != strings.Trim(c.held, " |") {
				t.Errorf("may hold %q besides, want %q", got, c.held)
			}
		})
	}
}

// A silent worker is nudged again only if it can be asked, has a pod, and has something to confirm.
func TestOnlySilentWorkersAreNudgedAgain(t *testing.T) {
	unsettled, pod := revokedRecord()
	settled := assign.Record{Worker: "w-0", PodUID: string(pod.UID), AcknowledgedVersion: 4,
		Lists: []assign.ListVersion{{Version: 4, Jobs: []string{"a"}}}}
	absent := unsettled
	absent.PodUID = ""
	for reason, c := range map[string]struct {
		record   assign.Record
		canAsk   bool
		wantMore bool
	}{
		"it is silent":          {unsettled, true, true},
		"it has confirmed":      {settled, true, false},
		"it has no pod":         {absent, true, false},
		"it cannot be asked":    {unsettled, false, false},
		"it has nothing at all": {assign.Record{Worker: "w-0"}, true, false},
	} {
		pool, known, now := newPool(), &Clocks{}, time.Unix(1000, 0)
		if !c.canAsk {
			pool.Spec.Refresh.Acknowledge = nil
		}
		known.pendingAcks.Set("w-0", pendingAck{c.record.PodUID, 5, now.Add(-time.Minute)})
		d := &planner{pool: pool, clocks: known, now: now}
		if got := d.renudges(c.record); (got > 0) != c.wantMore {
			t.Errorf("%s: nudged again %d times", reason, got)
		}
	}
}

// Pods of a Deployment get the slot of their worker; those that have to go get the lowest deletion cost.
func TestPodsOfADeploymentGetSlotAndDeletionCost(t *testing.T) {
	for reason, c := range map[string]struct {
		kind   v1alpha1.WorkloadKind
		wanted bool
		slot   string
		cost   string
	}{
		"stays":                {v1alpha1.WorkloadDeployment, true, "2", ""},
		"leaves":               {v1alpha1.WorkloadDeployment, false, "2", "-1000000"},
		"is a StatefulSet's":   {v1alpha1.WorkloadStatefulSet, true, "", ""},
		"leaves a StatefulSet": {v1alpha1.WorkloadStatefulSet, false, "", ""},
	} {
		d := &planner{pool: newPool(), snapshot: Snapshot{Workload: newWorkload(c.kind, 1)}}
		got := d.memberNudge(member{Worker: assign.Worker{Ordinal: 2}, pod: podNamed("w-0"), wanted: c.wanted}, assign.Record{})
		if got.Labels[v1alpha1.LabelSlot] != c.slot || got.Annotations[corev1.PodDeletionCost] != c.cost {
			t.Errorf("%s: labels %v, annotations %v", reason, got.Labels, got.Annotations)
		}
	}
}

func TestPodIsNotNudgedTwice(t *testing.T) {
	pod := podNamed("w-0")
	pod.Annotations = map[string]string{v1alpha1.AnnotationConfigVersion: "4"}
	record := assign.Record{Worker: "w-0", Lists: []assign.ListVersion{{Version: 4}}}
	d := &planner{pool: newPool(), clocks: &Clocks{}, now: time.Unix(1000, 0), records: []assign.Record{record}}
	d.snapshot.Workload = newWorkload(v1alpha1.WorkloadStatefulSet, 1)
	d.memberSet.members = []member{{Worker: assign.Worker{Name: "w-0"}, pod: pod, wanted: true}, {Worker: assign.Worker{Name: "w-1"}}}
	if d.planNudges(); len(d.Nudges) > 0 {
		t.Errorf("nudges %v, which the pod knows", d.Nudges)
	}
	d.records[0].Lists[0].Version = 5
	if d.planNudges(); len(d.Nudges) != 1 || d.Nudges[0].Annotations[v1alpha1.AnnotationConfigVersion] != "5" {
		t.Fatalf("nudges %v", d.Nudges)
	}
	d.clocks.lastNudges.Set("w-0", lastNudge{d.Nudges[0].String(), d.now})
	d.Nudges = nil
	if d.planNudges(); len(d.Nudges) > 0 {
		t.Errorf("nudges %v, which was just told", d.Nudges)
	}
	d.now = d.now.Add(maxCacheLag + time.Second)
	if d.planNudges(); len(d.Nudges) != 1 {
		t.Error("the cache never shows the nudge, and the pod is not nudged again")
	}
	d.Nudges, d.Paused = nil, true
	if d.planNudges(); len(d.Nudges) > 0 {
		t.Errorf("nudges %v while paused", d.Nudges)
	}
}
