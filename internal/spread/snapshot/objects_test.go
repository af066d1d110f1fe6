package snapshot

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// newPod returns a Ready pod of the Deployment on a node, "" for none yet.
func newPod(name, node string, pairs ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Annotations: annotations(pairs...), Labels: map[string]string{"app": "web", "pod-template-hash": "abc"},
			CreationTimestamp: metav1.Time{Time: noon},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-abc", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	if node != "" {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}}
	}
	return pod
}

// newObjects returns a Deployment of ten, at least 2 on-demand and 60 % spot, with a node of each class.
func newObjects(pods ...*corev1.Pod) Objects {
	settings := testSettings()
	workload := workloads.Deployment(deployment(annotations("spread", "enabled", "spot-percentage", "60", "min-on-demand", "2")))
	nodes := map[string]Node{}
	for name, class := range map[string]string{"s": "spot", "d": "on-demand"} {
		nodes[name] = settings.Node(node(map[string]string{capacityTypeLabel: class, "zone": name}))
	}
	return Objects{Workload: workload, Spec: settings.Spec(workload), Pods: pods, Nodes: nodes, Now: noon}
}

func mustSnapshot(t *testing.T, of Objects) split.Snapshot {
	t.Helper()
	input, err := testSettings().Snapshot(of)
	if err != nil {
		t.Fatal(err)
	}
	return input
}

// Neither budgets nor volumes of a pod that is too large are known: the workload is left alone.
func TestPodThatIsTooLargeHoldsItsWorkload(t *testing.T) {
	small, large := newPod("a", "d", "spread-number", "9"), newPod("b", "d", "spread-number", "8", "too-large", "true")
	if input := mustSnapshot(t, newObjects(small)); input.Policy == nil || input.Problem != "" {
		t.Errorf("a small one: policy %v, problem %q", input.Policy, input.Problem)
	}
	input := mustSnapshot(t, newObjects(small, large))
	if input.Policy != nil || !strings.HasPrefix(input.Problem, "pod b has more than 16 KiB") || len(input.Pods) != 2 {
		t.Errorf("policy %v, problem %q, %d pods", input.Policy, input.Problem, len(input.Pods))
	}
	if decision := split.Decide(input); len(decision.Moves) > 0 || decision.Status != split.Invalid {
		t.Errorf("%s: moves %v", decision.Status, decision.Moves)
	}
	large.Status.Phase = corev1.PodFailed
	if input := mustSnapshot(t, newObjects(small, large)); input.Policy == nil || input.Problem != "" {
		t.Errorf("beside one that has failed: policy %v, problem %q", input.Policy, input.Problem)
	}
}

func TestSnapshotPods(t *testing.T) {
	going, failed, starting := newPod("e", "s", "spread-number", "4"), newPod("f", "s", "spread-number", "5"), newPod("g", "s",
		"spread-number", "6")
	going.DeletionTimestamp, failed.Status.Phase, starting.Status.Conditions = &metav1.Time{Time: noon}, corev1.PodFailed, nil
	gated, ungated := newPod("i", "", "spread-number", "7", "spread-class", "spot"), newPod("j", "", "spread-number", "8", "spread-class",
		"spot")
	gated.Spec.SchedulingGates, ungated.UID = []corev1.PodSchedulingGate{{Name: "queue"}}, "j"
	pods := []*corev1.Pod{
		newPod("a", "d", "spread-number", "0", "spread-class", "on-demand"), newPod("b", "", "spread-number", "1", "spread-class", "spot"),
		newPod("c", "s"),
		newPod("d", "gone", "spread-number", "3", "spread-class", "spot"), going, failed, starting,
		newPod("h", "s", "spread-number", "-4", "spread-class", "gold"),
		gated, ungated,
	}
	want := []split.Pod{
		{Name: "a", Number: 0, AssignedClass: split.OnDemand, NodeClass: split.OnDemand, Phase: split.Ready},
		{Name: "b", Number: 1, AssignedClass: split.Spot, Phase: split.Pending},
		{Name: "c", Number: split.Unnumbered, NodeClass: split.Spot, Phase: split.Ready},
		{Name: "d", Number: 3, AssignedClass: split.Spot, NodeClass: split.Spot, Phase: split.Ready, NodeTerminating: true, NodeDown: true},
		{Name: "e", Number: 4, NodeClass: split.Spot, Phase: split.Terminating},
		{Name: "f", Number: 5, NodeClass: split.Spot, Phase: split.Terminating},
		{Name: "g", Number: 6, NodeClass: split.Spot, Phase: split.Starting},
		{Name: "h", Number: split.Unnumbered, NodeClass: split.Spot, Phase: split.Ready},
		{Name: "i", Number: 7, AssignedClass: split.Spot, Phase: split.Pending, Gated: true},
		{Name: "j", Number: 8, AssignedClass: split.Spot, Phase: split.Pending, SchedulableSince: noon.Add(time.Hour)},
	}
	for n := range want {
		want[n].Created, want[n].TemplateHash = noon, "abc"
	}
	objects := newObjects(pods...)
	objects.History.UngatedAt = map[types.UID]time.Time{"j": noon.Add(time.Hour)}
	if diff := cmp.Diff(want, mustSnapshot(t, objects).Pods); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(objects.Pods)
	if diff := cmp.Diff(want, mustSnapshot(t, objects).Pods); diff != "" {
		t.Error("another order of pods gives another world:", diff)
	}
}

func TestPodsThatMustLeaveANode(t *testing.T) {
	notice := taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)
	unschedulable := taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	noticeOnly := corev1.Toleration{Key: notice.Key, Operator: corev1.TolerationOpExists}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	everythingBriefly := everything
	everythingBriefly.TolerationSeconds = new(int64(30))
	for _, c := range []struct {
		reason       string
		node         Node
		tolerates    []corev1.Toleration
		doomed, lost bool
		cordoned     bool
	}{
		{"it stays", Node{}, nil, false, false, false},
		{"a notice", Node{Notice: notice.Key, NoticeTaints: []corev1.Taint{notice}}, nil, true, false, false},
		{"a notice that is tolerated: the next pod would be here again", Node{Notice: notice.Key, NoticeTaints: []corev1.Taint{notice}},
			[]corev1.Toleration{everything}, false, false, false},
		{"tolerated for a while", Node{Notice: notice.Key, NoticeTaints: []corev1.Taint{notice}}, []corev1.Toleration{everythingBriefly}, true,
			false, false},
		{"down, even if tolerated", Node{Notice: "node.kubernetes.io/not-ready", NotReady: true, NoticeTaints: []corev1.Taint{notice}},
			[]corev1.Toleration{everything}, true, true, false},
		{"deleted, even if everything is tolerated", Node{Notice: deletionNotice}, []corev1.Toleration{everything}, true, false, false},
		{"cordoned", Node{Notice: unschedulable.Key, NoticeTaints: []corev1.Taint{unschedulable}}, nil, true, false, true},
		{"cordoned, and tolerated", Node{Notice: unschedulable.Key, NoticeTaints: []corev1.Taint{unschedulable}}, []corev1.Toleration{everything},
			false, false, false},
		{"cordoned, and a notice", Node{Notice: unschedulable.Key, NoticeTaints: []corev1.Taint{unschedulable, notice}}, nil, true, false, false},
		{"cordoned, and a notice that is tolerated", Node{Notice: unschedulable.Key, NoticeTaints: []corev1.Taint{unschedulable, notice}},
			[]corev1.Toleration{noticeOnly}, true, false, true},
		{"cordoned, and deleted", Node{Notice: deletionNotice, NoticeTaints: []corev1.Taint{unschedulable}}, nil, true, false, false},
		{"cordoned, and down", Node{Notice: unschedulable.Key, NotReady: true, NoticeTaints: []corev1.Taint{unschedulable}}, nil, true, true,
			false},
	} {
		of := newObjects(newPod("a", "s"))
		of.Nodes["s"], of.Workload.PodSpec.Tolerations = c.node, c.tolerates
		if got := mustSnapshot(t, of).Pods[0]; got.NodeTerminating != c.doomed || got.NodeDown != c.lost || got.Cordoned != c.cordoned {
			t.Errorf("%s: %+v", c.reason, got)
		}
	}
}

func TestCapacity(t *testing.T) {
	objects := newObjects()
	cordoned, tainted, provisioned := objects.Nodes["s"], objects.Nodes["s"], objects.Nodes["d"]
	cordoned.Schedulable, tainted.Taints, provisioned.Provisioned = false, []corev1.Taint{taint("gpu", corev1.TaintEffectNoSchedule)}, true
	objects.Nodes["s2"], objects.Nodes["s3"] = cordoned, tainted
	objects.History.Spot = ClassHistory{NoCapacitySince: noon, NodeAvailableAt: noon}
	if got := mustSnapshot(t, objects).Spot; got != (split.Capacity{Nodes: 1, Static: true, NoCapacitySince: noon, NodeAvailableAt: noon}) {
		t.Errorf("got %+v", got)
	}
	objects.Workload.PodSpec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	if got := mustSnapshot(t, objects).Spot.Nodes; got != 2 {
		t.Errorf("what the template tolerates does not count: %d nodes", got)
	}
	automatic := testSettings()
	automatic.Provisioner = ProvisionerAuto
	for _, static := range []bool{true, false} {
		if world, _ := automatic.Snapshot(objects); world.Spot.Static != static {
			t.Errorf("static: got %t", world.Spot.Static)
		}
		objects.Nodes["d"] = provisioned
	}
}

// newBudget returns a budget for pods with the label app=web.
func newBudget(allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestBudgets(t *testing.T) {
	other := newBudget(0)
	other.Spec.Selector.MatchLabels["app"] = "other"
	for _, c := range []struct {
		reason  string
		budgets []*policyv1.PodDisruptionBudget
		allowed int
		hold    string
	}{
		{"none", nil, split.NoLimit, ""},
		{"of other pods", []*policyv1.PodDisruptionBudget{other}, split.NoLimit, ""},
		{"one", []*policyv1.PodDisruptionBudget{other, newBudget(3)}, 3, ""},
		{"two on one pod", []*policyv1.PodDisruptionBudget{newBudget(3), newBudget(1)}, 1, "leave one"},
	} {
		of := newObjects(newPod("a", "s"), newPod("b", "d"))
		of.Budgets = c.budgets
		world := mustSnapshot(t, of)
		if world.Budget.Allowed != c.allowed || world.Budget.Step != 3 || !strings.Contains(world.Hold, c.hold) ||
			(c.hold == "") != (world.Hold == "") {
			t.Errorf("%s: got %+v, hold %q", c.reason, world.Budget, world.Hold)
		}
	}
}

func TestHold(t *testing.T) {
	objects := newObjects()
	objects.Workload.Rollout = "a rollout is in progress"
	if hold := mustSnapshot(t, objects).Hold; hold != objects.Workload.Rollout {
		t.Errorf("a rollout does not hold: %q", hold)
	}
}

func TestPodsWithUnreachableVolumesAreImmovable(t *testing.T) {
	volume := func(zone string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone",
					Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}},
			}}}}
	}
	for _, c := range []struct {
		reason string
		pod    *corev1.Pod // number 9 belongs on spot, number 0 on on-demand nodes
		volume *corev1.PersistentVolume
		bound  bool
	}{
		{"a volume that stays where the pod is", newPod("a", "d", "spread-number", "9"), volume("d"), true},
		{"a volume that the other class can reach", newPod("a", "d", "spread-number", "9"), volume("s"), false},
		{"a volume that every node can use", newPod("a", "d", "spread-number", "9"), &corev1.PersistentVolume{}, false},
		{"a pod without a number, whose volume stays", newPod("a", "d"), volume("d"), true},
		{"a pod without a number that can go", newPod("a", "d"), volume("s"), false},
		{"a pod that is where it belongs", newPod("a", "s", "spread-number", "9"), volume("s"), false},
	} {
		objects := newObjects(c.pod)
		objects.Volumes = func(*corev1.Pod) ([]*corev1.PersistentVolume, error) {
			return []*corev1.PersistentVolume{c.volume}, nil
		}
		if got := mustSnapshot(t, objects).Pods[0].ImmovableReason; (got != "") != c.bound {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
	objects := newObjects(newPod("a", "d", "spread-number", "9"))
	objects.Volumes = func(*corev1.Pod) ([]*corev1.PersistentVolume, error) { return nil, errors.New("no answer") }
	if _, err := testSettings().Snapshot(objects); err == nil {
		t.Error("a world was made up without knowing the volumes")
	}
}

func TestStatefulSetsCountOrdinals(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: appsv1.StatefulSetSpec{Ordinals: &appsv1.StatefulSetOrdinals{Start: 5}}}
	workload := workloads.StatefulSet(set)
	for name, want := range map[string]int{"db-5": 0, "db-12": 7, "db-4": split.Unnumbered, "db-x": split.Unnumbered} {
		if got := testSettings().Number(workload, &metav1.ObjectMeta{Name: name}); got != want {
			t.Errorf("%s is number %d, want %d", name, got, want)
		}
	}
	if workload.Replicas != 1 {
		t.Errorf("%d replicas without a number", workload.Replicas)
	}
}

func TestRolloutsInProgress(t *testing.T) {
	moving, unseen, still := deployment(nil), deployment(nil), deployment(nil)
	moving.Status = appsv1.DeploymentStatus{Replicas: 10, UpdatedReplicas: 4}
	unseen.Generation = 2
	still.Status = appsv1.DeploymentStatus{Replicas: 10, UpdatedReplicas: 10}
	set := func(current string, partition int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
			}},
			Status: appsv1.StatefulSetStatus{CurrentRevision: current, UpdateRevision: "new"},
		}
	}
	for n, c := range []struct {
		workload workloads.Workload
		rolling  bool
	}{
		{workloads.Deployment(moving), true}, {workloads.Deployment(unseen), true}, {workloads.Deployment(still), false},
		{workloads.StatefulSet(set("old", 0)), true}, {workloads.StatefulSet(set("new", 0)), false},
		{workloads.StatefulSet(set("old", 2)), false},
	} {
		if (c.workload.Rollout != "") != c.rolling {
			t.Errorf("%d: %q", n, c.workload.Rollout)
		}
	}
}

func TestOwners(t *testing.T) {
	owned := func(kind, owner string) *corev1.Pod {
		pod := newPod("p", "")
		pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name = kind, owner
		return pod
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		kind v1alpha1.WorkloadKind
		name string
	}{
		{owned("ReplicaSet", "web-abc"), v1alpha1.WorkloadDeployment, "web"},
		{owned("StatefulSet", "db"), v1alpha1.WorkloadStatefulSet, "db"},
		{owned("ReplicaSet", "by-hand"), "", ""},
		{owned("Job", "once"), "", ""},
		{&corev1.Pod{}, "", ""},
	} {
		if key, found := workloads.OwnerOf(c.pod); key.Kind != c.kind || key.Name != c.name || found != (c.name != "") {
			t.Errorf("got %s, %t", key, found)
		}
	}
}
