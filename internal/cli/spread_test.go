package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

func newNode(name, class string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if class != "" {
		node.Labels["karpenter.sh/capacity-type"] = class
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100")}
	return node
}

// spreadDeployment returns a Deployment whose replicas run on the nodes, in the order of their numbers.
func spreadDeployment(name string, annotations map[string]string, nodes ...string) []client.Object {
	for key, value := range annotations {
		delete(annotations, key)
		annotations["swarm.io/"+key] = value
	}
	objects := []client.Object{&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(len(nodes)))},
	}}
	for n, node := range nodes {
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("%s-abc-%d", name, n), Annotations: map[string]string{"swarm.io/spread-number": fmt.Sprint(n)},
				Labels: map[string]string{"app": name, "pod-template-hash": "abc"}, CreationTimestamp: metav1.NewTime(testTime.Add(-time.Hour)),
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name + "-abc", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"),
					corev1.ResourceMemory: resource.MustParse("1Gi")}},
			}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
				Status: corev1.ConditionTrue}}},
		})
	}
	return objects
}

// newSpreadHarness has a workload that is balanced, one with all its pods on on-demand nodes, one with invalid settings and one without
// any.
func newSpreadHarness(t *testing.T, more ...client.Object) *cliHarness {
	t.Helper()
	objects := []client.Object{newNode("d", "on-demand"), newNode("s", "spot"), newNode("plain", "")}
	objects = append(objects, spreadDeployment("api", map[string]string{"spread": "enabled", "spot-percentage": "50",
		"spread-status": "Balanced"}, "d", "s", "d", "s")...)
	objects = append(objects, spreadDeployment("web", map[string]string{"spread": "enabled", "spot-percentage": "60", "min-on-demand": "2",
		"spread-status": "Rebalancing", "spread-reason": "moving 1 pod"}, "d", "d", "d", "d", "d", "d", "d", "d", "plain", "plain")...)
	objects = append(objects, spreadDeployment("odd", map[string]string{"spread": "enabled", "spot-percentage": "abc",
		"spread-status": `Invalid: spot-percentage is "abc": write a whole number from 0 to 100, such as "60" or "60%"`}, "d")...)
	objects = append(objects, spreadDeployment("quiet", map[string]string{"spot-percentage": "50"}, "d")...)
	return newCLIHarness(t, append(objects, more...)...)
}

func TestSpreadIsShown(t *testing.T) {
	w := newSpreadHarness(t)
	for name, line := range map[string]string{
		"spread.txt": "spread", "spread-all.txt": "spread -A -o wide", "spread-name.txt": "spread -o name",
		"spread-one.yaml": "spread deployment/web -o yaml", "spread-prices.txt": "spread --prices on-demand=0.2,spot=0.05",
	} {
		compare(t, name, w.mustRun(line))
	}
}

func TestSpreadIsPlanned(t *testing.T) {
	w := newSpreadHarness(t)
	for name, line := range map[string]string{
		"planspread.txt": "plan spread web", "planspread-nothing.txt": "plan spread deploy/api",
		"planspread-percent.txt": "plan spread api --spot-percentage 100 --min-on-demand 1",
		"planspread-scaled.txt":  "plan spread api --replicas 8", "planspread-smaller.txt": "plan spread api --replicas 1",
		"planspread-new.json": "plan spread quiet --min-on-demand 0 -o json",
	} {
		compare(t, name, w.mustRun(line))
	}
}

// A step is a percentage of the replicas after the change.
func TestPlanOfALargerWorkloadTakesLargerSteps(t *testing.T) {
	w := newSpreadHarness(t)
	if out := w.mustRun("plan spread web --replicas 40 --spot-percentage 100 --min-on-demand 0"); strings.Count(out, "\nstep ") != 1 {
		t.Error(out)
	}
}

func TestPodsAfterScaling(t *testing.T) {
	pod := func(name string, number int, phase split.Phase) split.Pod {
		return split.Pod{Name: name, Number: number, Phase: phase}
	}
	now := []split.Pod{
		pod("stray", split.Unnumbered, split.Ready), pod("a", 0, split.Ready), pod("going", 1, split.Terminating), pod("b", 2, split.Ready),
		pod("c", 5, split.Ready),
	}
	for replicas, want := range map[int]string{0: "", 1: "a", 2: "a stray", 3: "a b stray", 4: "a b stray new", 6: "a b c stray new new"} {
		var got []string
		for _, pod := range scalePods(split.Snapshot{Policy: &split.Policy{SpotPercent: 50}, Replicas: replicas, Pods: now}) {
			got = append(got, strings.ReplaceAll(pod.Name, newPodName, "new"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d replicas: got %v, want %s", replicas, got, want)
		}
	}
}

func TestBudgetIsInThePlan(t *testing.T) {
	w := newSpreadHarness(t, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	if out := w.mustRun("plan spread web"); !strings.Contains(out,
		"now BlockedByPDB: its PodDisruptionBudget allows no more disruption now") || strings.Contains(out, "step 1") {
		t.Error(out)
	}
}

func TestPlanConsidersWindowsAndTheLastValidSetting(t *testing.T) {
	closed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{
		"swarm.io/disruption-windows": "0 13 * * * for 2h"}}}
	late := spreadDeployment("late", map[string]string{"spread": "enabled", "spot-percentage": "abc",
		"spread-settings": "min-on-demand:0,spot-percentage:100"}, "d")
	w := newSpreadHarness(t, append(late, closed)...)
	for line, want := range map[string]string{
		"plan spread web":  "now Rebalancing: waiting: the disruption windows are closed until 2026-03-01T13:00:00Z\n\nstep 1\n",
		"plan spread late": "now Invalid: the last valid setting stays: at least 0 on-demand, 100% spot\nto correct: spot-percentage is \"abc\"",
	} {
		if out := w.mustRun(line); !strings.Contains(out, want) {
			t.Errorf("%s: %s", line, out)
		}
	}
}

func TestSpreadUsageErrors(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "api"}}
	picky := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "picky"}}
	picky.Spec.Template.Spec.NodeName = "d"
	w := newSpreadHarness(t, set, picky)
	for _, c := range []struct {
		line string
		code int
		said string
	}{
		{"spread -A web", exitUsage, "use -n instead of -A"},
		{"spread none", exitError, `there is no Deployment or StatefulSet "none" in namespace "default"`},
		{"spread quiet", exitError, "quiet is not spread: annotate it with swarm.io/spread=enabled and swarm.io/spot-percentage"},
		{"spread api", exitError, "write deployment/api or statefulset/api"},
		{"spread --prices cheap", exitUsage, "write on-demand=0.192,spot=0.058"},
		{"spread --prices on-demand=1", exitUsage, "does not name both classes"},
		{"spread --spot-label spot", exitUsage, `"spot" is no label: write key=value`},
		{"plan spread", exitUsage, "name a workload"},
		{"plan spread a b", exitUsage, "name one workload, not 2"},
		{"plan spread web --replicas -1", exitUsage, "is not from 0 to"},
		{"plan spread web --spot-percentage 101", exitError, `spot-percentage is "101"`},
		{"plan spread picky --spot-percentage 50", exitError, "its template chooses nodes by nodeName itself"},
		{"plan spread quiet", exitError, "say how it should be, with --spot-percentage or --min-on-demand"},
		{"plan spread odd", exitError, `its setting is invalid: spot-percentage is "abc"`},
	} {
		code, _, stderr := w.run(c.line)
		if code != c.code || !strings.Contains(stderr, c.said) {
			t.Errorf("%s: exit code %d: %s", c.line, code, stderr)
		}
	}
}

func TestNothingIsSpread(t *testing.T) {
	w := newCLIHarness(t)
	for line, want := range map[string]string{
		"spread":    "No workload is spread in namespace \"default\": kubectl swarm spread -A lists those of all namespaces.\n",
		"spread -A": "No workload is spread in this cluster: annotate one with swarm.io/spread=enabled and swarm.io/spot-percentage.\n",
	} {
		if code, out, said := w.run(line); code != exitOK || out != "" || said != want {
			t.Errorf("%s: exit code %d: %s%s", line, code, out, said)
		}
	}
}
