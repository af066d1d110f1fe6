package survey

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
	"github.com/swarm-io/swarm-operator/internal/spread"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// podOn returns a Ready pod of the Deployment on a node, "" for none yet.
func podOn(name, node string, pairs ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Annotations: said(pairs...), Labels: map[string]string{"app": "web", "pod-template-hash": "abc"}, CreationTimestamp: metav1.Time{Time: noon},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-abc", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	if node != "" {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	}
	return pod
}

// scene returns a Deployment of ten, at least 2 on-demand and 60 % spot, with a node of each class.
func scene(pods ...*corev1.Pod) Scene {
	settings := standard()
	workload := Deployment(deployment(said("spread", "enabled", "spot-percentage", "60", "min-on-demand", "2")))
	nodes := map[string]Node{}
	for name, class := range map[string]string{"s": "spot", "d": "on-demand"} {
		nodes[name] = settings.Node(node(map[string]string{capacity: class, "zone": name}))
	}
	return Scene{Workload: workload, Wish: settings.Wish(workload), Pods: pods, Nodes: nodes, Now: noon}
}

func worldOf(t *testing.T, of Scene) spread.World {
	t.Helper()
	world, err := standard().World(of)
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// Neither budgets nor volumes of a pod that is too large are known: the workload is left alone.
func TestPodThatIsTooLargeHoldsItsWorkload(t *testing.T) {
	small, large := podOn("a", "d", "spread-number", "9"), podOn("b", "d", "spread-number", "8", "too-large", "true")
	if world := worldOf(t, scene(small)); world.Policy == nil || world.Problem != "" {
		t.Errorf("a small one: policy %v, problem %q", world.Policy, world.Problem)
	}
	world := worldOf(t, scene(small, large))
	if world.Policy != nil || !strings.HasPrefix(world.Problem, "pod b has more than 16 KiB") || len(world.Pods) != 2 {
		t.Errorf("policy %v, problem %q, %d pods", world.Policy, world.Problem, len(world.Pods))
	}
	if decision := spread.Next(world); len(decision.Moves) > 0 || decision.Word != spread.Invalid {
		t.Errorf("%s: moves %v", decision.Word, decision.Moves)
	}
	large.Status.Phase = corev1.PodFailed
	if world := worldOf(t, scene(small, large)); world.Policy == nil || world.Problem != "" {
		t.Errorf("beside one that has failed: policy %v, problem %q", world.Policy, world.Problem)
	}
}

func TestPodsAsTheEngineSeesThem(t *testing.T) {
	going, failed, starting := podOn("e", "s", "spread-number", "4"), podOn("f", "s", "spread-number", "5"), podOn("g", "s", "spread-number", "6")
	going.DeletionTimestamp, failed.Status.Phase, starting.Status.Conditions = &metav1.Time{Time: noon}, corev1.PodFailed, nil
	gated, ungated := podOn("i", "", "spread-number", "7", "spread-class", "spot"), podOn("j", "", "spread-number", "8", "spread-class", "spot")
	gated.Spec.SchedulingGates, ungated.UID = []corev1.PodSchedulingGate{{Name: "queue"}}, "j"
	pods := []*corev1.Pod{
		podOn("a", "d", "spread-number", "0", "spread-class", "on-demand"), podOn("b", "", "spread-number", "1", "spread-class", "spot"), podOn("c", "s"),
		podOn("d", "gone", "spread-number", "3", "spread-class", "spot"), going, failed, starting, podOn("h", "s", "spread-number", "-4", "spread-class", "gold"),
		gated, ungated,
	}
	want := []spread.Pod{
		{Name: "a", Number: 0, Made: spread.OnDemand, Node: spread.OnDemand, Phase: spread.Ready},
		{Name: "b", Number: 1, Made: spread.Spot, Phase: spread.Pending},
		{Name: "c", Number: spread.Unnumbered, Node: spread.Spot, Phase: spread.Ready},
		{Name: "d", Number: 3, Made: spread.Spot, Node: spread.Spot, Phase: spread.Ready, Doomed: true, Lost: true},
		{Name: "e", Number: 4, Node: spread.Spot, Phase: spread.Terminating},
		{Name: "f", Number: 5, Node: spread.Spot, Phase: spread.Terminating},
		{Name: "g", Number: 6, Node: spread.Spot, Phase: spread.Starting},
		{Name: "h", Number: spread.Unnumbered, Node: spread.Spot, Phase: spread.Ready},
		{Name: "i", Number: 7, Made: spread.Spot, Phase: spread.Pending, Gated: true},
		{Name: "j", Number: 8, Made: spread.Spot, Phase: spread.Pending, Since: noon.Add(time.Hour)},
	}
	for n := range want {
		want[n].Created, want[n].Set = noon, "abc"
	}
	of := scene(pods...)
	of.Memory.Ungated = map[types.UID]time.Time{"j": noon.Add(time.Hour)}
	if diff := cmp.Diff(want, worldOf(t, of).Pods); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(of.Pods)
	if diff := cmp.Diff(want, worldOf(t, of).Pods); diff != "" {
		t.Error("another order of pods gives another world:", diff)
	}
}

func TestWhoLeavesANode(t *testing.T) {
	notice := taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)
	unschedulable := taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	only := corev1.Toleration{Key: notice.Key, Operator: corev1.TolerationOpExists}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	awhile := everything
	awhile.TolerationSeconds = new(int64(30))
	for _, c := range []struct {
		reason       string
		node         Node
		tolerates    []corev1.Toleration
		doomed, lost bool
		cordoned     bool
	}{
		{"it stays", Node{}, nil, false, false, false},
		{"a notice", Node{Going: notice.Key, Notices: []corev1.Taint{notice}}, nil, true, false, false},
		{"a notice that is tolerated: the next pod would be here again", Node{Going: notice.Key, Notices: []corev1.Taint{notice}}, []corev1.Toleration{everything}, false, false, false},
		{"tolerated for a while", Node{Going: notice.Key, Notices: []corev1.Taint{notice}}, []corev1.Toleration{awhile}, true, false, false},
		{"down, even if tolerated", Node{Going: "node.kubernetes.io/not-ready", Down: true, Notices: []corev1.Taint{notice}}, []corev1.Toleration{everything}, true, true, false},
		{"deleted, even if everything is tolerated", Node{Going: deletion}, []corev1.Toleration{everything}, true, false, false},
		{"cordoned", Node{Going: unschedulable.Key, Notices: []corev1.Taint{unschedulable}}, nil, true, false, true},
		{"cordoned, and tolerated", Node{Going: unschedulable.Key, Notices: []corev1.Taint{unschedulable}}, []corev1.Toleration{everything}, false, false, false},
		{"cordoned, and a notice", Node{Going: unschedulable.Key, Notices: []corev1.Taint{unschedulable, notice}}, nil, true, false, false},
		{"cordoned, and a notice that is tolerated", Node{Going: unschedulable.Key, Notices: []corev1.Taint{unschedulable, notice}}, []corev1.Toleration{only}, true, false, true},
		{"cordoned, and deleted", Node{Going: deletion, Notices: []corev1.Taint{unschedulable}}, nil, true, false, false},
		{"cordoned, and down", Node{Going: unschedulable.Key, Down: true, Notices: []corev1.Taint{unschedulable}}, nil, true, true, false},
	} {
		of := scene(podOn("a", "s"))
		of.Nodes["s"], of.Workload.Pods.Tolerations = c.node, c.tolerates
		if got := worldOf(t, of).Pods[0]; got.Doomed != c.doomed || got.Lost != c.lost || got.Cordoned != c.cordoned {
			t.Errorf("%s: %+v", c.reason, got)
		}
	}
}

func TestSupply(t *testing.T) {
	of := scene()
	cordoned, tainted, made := of.Nodes["s"], of.Nodes["s"], of.Nodes["d"]
	cordoned.Open, tainted.Taints, made.Made = false, []corev1.Taint{taint("gpu", corev1.TaintEffectNoSchedule)}, true
	of.Nodes["s2"], of.Nodes["s3"] = cordoned, tainted
	of.Memory.Spot = Past{Failed: noon, Returned: noon}
	if got := worldOf(t, of).Spot; got != (spread.Supply{Nodes: 1, Static: true, Failed: noon, Returned: noon}) {
		t.Errorf("got %+v", got)
	}
	of.Workload.Pods.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	if got := worldOf(t, of).Spot.Nodes; got != 2 {
		t.Errorf("what the template tolerates does not count: %d nodes", got)
	}
	automatic := standard()
	automatic.Provisioner = ProvisionerAuto
	for _, static := range []bool{true, false} {
		if world, _ := automatic.World(of); world.Spot.Static != static {
			t.Errorf("static: got %t", world.Spot.Static)
		}
		of.Nodes["d"] = made
	}
}

// budget returns a budget for pods with the label app=web.
func budget(allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestBudgets(t *testing.T) {
	other := budget(0)
	other.Spec.Selector.MatchLabels["app"] = "other"
	for _, c := range []struct {
		reason  string
		budgets []*policyv1.PodDisruptionBudget
		allowed int
		hold    string
	}{
		{"none", nil, spread.NoLimit, ""},
		{"of other pods", []*policyv1.PodDisruptionBudget{other}, spread.NoLimit, ""},
		{"one", []*policyv1.PodDisruptionBudget{other, budget(3)}, 3, ""},
		{"two on one pod", []*policyv1.PodDisruptionBudget{budget(3), budget(1)}, 1, "leave one"},
	} {
		of := scene(podOn("a", "s"), podOn("b", "d"))
		of.Budgets = c.budgets
		world := worldOf(t, of)
		if world.Budget.Allowed != c.allowed || world.Budget.Step != 3 || !strings.Contains(world.Hold, c.hold) || (c.hold == "") != (world.Hold == "") {
			t.Errorf("%s: got %+v, hold %q", c.reason, world.Budget, world.Hold)
		}
	}
}

func TestWhatHoldsPods(t *testing.T) {
	of := scene()
	of.Workload.Rollout = "a rollout is in progress"
	if hold := worldOf(t, of).Hold; hold != of.Workload.Rollout {
		t.Errorf("a rollout does not hold: %q", hold)
	}
	of.Hold = "the window is closed"
	if hold := worldOf(t, of).Hold; hold != of.Hold {
		t.Errorf("got %q", hold)
	}
}

func TestVolumesBindPods(t *testing.T) {
	volume := func(zone string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}},
		}}}}
	}
	for _, c := range []struct {
		reason string
		pod    *corev1.Pod // number 9 belongs on spot, number 0 on on-demand nodes
		volume *corev1.PersistentVolume
		bound  bool
	}{
		{"a volume that stays where the pod is", podOn("a", "d", "spread-number", "9"), volume("d"), true},
		{"a volume that the other class can reach", podOn("a", "d", "spread-number", "9"), volume("s"), false},
		{"a volume that anybody can reach", podOn("a", "d", "spread-number", "9"), &corev1.PersistentVolume{}, false},
		{"a pod without a number, whose volume stays", podOn("a", "d"), volume("d"), true},
		{"a pod without a number that can go", podOn("a", "d"), volume("s"), false},
		{"a pod that is where it belongs", podOn("a", "s", "spread-number", "9"), volume("s"), false},
	} {
		of := scene(c.pod)
		of.Volumes = func(*corev1.Pod) ([]*corev1.PersistentVolume, error) {
			return []*corev1.PersistentVolume{c.volume}, nil
		}
		if got := worldOf(t, of).Pods[0].Bound; (got != "") != c.bound {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
	of := scene(podOn("a", "d", "spread-number", "9"))
	of.Volumes = func(*corev1.Pod) ([]*corev1.PersistentVolume, error) { return nil, errors.New("no answer") }
	if _, err := standard().World(of); err == nil {
		t.Error("a world was made up without knowing the volumes")
	}
}

func TestStatefulSetsCountOrdinals(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: appsv1.StatefulSetSpec{Ordinals: &appsv1.StatefulSetOrdinals{Start: 5}}}
	workload := StatefulSet(set)
	for name, want := range map[string]int{"db-5": 0, "db-12": 7, "db-4": spread.Unnumbered, "db-x": spread.Unnumbered} {
		if got := standard().Number(workload, &metav1.ObjectMeta{Name: name}); got != want {
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
			Spec:   appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}},
			Status: appsv1.StatefulSetStatus{CurrentRevision: current, UpdateRevision: "new"},
		}
	}
	for n, c := range []struct {
		workload Workload
		rolling  bool
	}{
		{Deployment(moving), true}, {Deployment(unseen), true}, {Deployment(still), false},
		{StatefulSet(set("old", 0)), true}, {StatefulSet(set("new", 0)), false}, {StatefulSet(set("old", 2)), false},
	} {
		if (c.workload.Rollout != "") != c.rolling {
			t.Errorf("%d: %q", n, c.workload.Rollout)
		}
	}
}

func TestOwners(t *testing.T) {
	owned := func(kind, owner string) *corev1.Pod {
		pod := podOn("p", "")
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
		if key, found := OwnerOf(c.pod); key.Kind != c.kind || key.Name != c.name || found != (c.name != "") {
			t.Errorf("got %s, %t", key, found)
		}
	}
}
