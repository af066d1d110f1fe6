package spread

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
)

// A generator generates the objects of a cluster with one workload, web in namespace demo. The same seed gives the same objects.
type generator struct {
	*rand.Rand

	kind     v1alpha1.WorkloadKind
	now      time.Time
	replicas int
	storm    split.Class // all nodes of this class go away, "" for none
	fresh    bool        // all pods have just been created
	zones    bool        // each class has a zone of its own
	volumes  int         // percent of the pods
	objects  []client.Object
	nodes    map[split.Class][]string
}

// generateCluster returns the kind of the workload, and all objects.
func generateCluster(seed uint64, now time.Time) (v1alpha1.WorkloadKind, []client.Object) {
	g := &generator{Rand: rand.New(rand.NewPCG(12, seed)), kind: v1alpha1.WorkloadDeployment, now: now, nodes: map[split.Class][]string{}}
	if g.chance(40) {
		g.kind = v1alpha1.WorkloadStatefulSet
	}
	g.replicas, g.fresh, g.zones, g.volumes = g.IntN(13), g.chance(10), g.chance(50), pick(g, 0, 0, 10, 80)
	if g.chance(25) {
		g.storm, g.fresh = pick(g, split.Spot, split.Spot, split.OnDemand), g.chance(50)
	}
	g.addNamespace()
	g.addNodes()
	g.addWorkload()
	g.addVolumes()
	g.addPods()
	g.addBudgets()
	return g.kind, g.objects
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// pick returns one of the values.
func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) add(objects ...client.Object) { g.objects = append(g.objects, objects...) }

// windows are open, closed or invalid at noon.
func (g *generator) windows() string {
	return pick(g, "0 11 * * * for 2h", "0 13 * * * for 2h", "30 12 * * 5 for 10m; 0 3 * * * for 1h", "0 0 1 1 * for 1h", "0 0 30 2 * for 1h")
}

func (g *generator) addNamespace() {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	if g.chance(8) {
		namespace.Annotations = map[string]string{"swarm.io/disruption-windows": g.windows()}
	}
	g.add(namespace)
}

func (g *generator) addNodes() {
	provisioned := g.chance(60)
	for _, class := range []split.Class{split.Spot, split.OnDemand} {
		for n := range pick(g, 0, 1, 2, 2, 3, 3) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, n), Labels: map[string]string{
				"karpenter.sh/capacity-type": string(class), "zone": g.zone(class)}}}
			if provisioned {
				node.Labels["karpenter.sh/nodepool"] = "default"
			}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(g.now.Add(-g.age()))}}
			switch {
			case class == g.storm:
				addTaint(node, "aws-node-termination-handler/spot-itn")
			case g.chance(20):
				g.disturbNode(node)
			}
			g.nodes[class] = append(g.nodes[class], node.Name)
			g.add(node)
		}
	}
}

// zone returns a zone for a node.
func (g *generator) zone(class split.Class) string {
	switch {
	case !g.zones:
		return pick(g, "a", "b")
	case class == split.Spot:
		return "a"
	}
	return "b"
}

// addTaint adds a taint. Those of the capacity type have its value, as some clouds set it.
func addTaint(node *corev1.Node, key string) {
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: node.Labels[key], Effect: corev1.TaintEffectNoSchedule})
}

// disturbNode cordons a node, interrupts it, stops it, deletes it or changes its labels.
func (g *generator) disturbNode(node *corev1.Node) {
	switch g.IntN(7) {
	case 0, 1:
		node.Spec.Unschedulable = true
		addTaint(node, corev1.TaintNodeUnschedulable)
	case 2:
		addTaint(node, pick(g, "karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn", "ToBeDeletedByClusterAutoscaler"))
	case 3:
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		addTaint(node, corev1.TaintNodeUnreachable)
	case 4:
		node.DeletionTimestamp, node.Finalizers = &metav1.Time{Time: g.now}, []string{"test/keep"}
	case 5:
		addTaint(node, "karpenter.sh/capacity-type")
	case 6:
		delete(node.Labels, "karpenter.sh/capacity-type")
	}
}

// age is how long ago something happened: within the cooldown, within the deadline of Pending pods, after it, or long ago.
func (g *generator) age() time.Duration {
	return pick(g, 3*time.Second, 30*time.Second, 90*time.Second, 5*time.Minute, time.Hour, 2*time.Hour)
}

func (g *generator) addWorkload() {
	meta := metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "web", Generation: 1, Annotations: g.annotations()}
	template := corev1.PodTemplateSpec{}
	if g.chance(4) {
		template.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	}
	if g.chance(10) {
		template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	replicas, observed := int32(g.replicas), int64(1)
	if g.chance(5) {
		observed = 0
	}
	if g.kind == v1alpha1.WorkloadStatefulSet {
		set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Template: template}}
		set.Status = appsv1.StatefulSetStatus{ObservedGeneration: observed, CurrentRevision: "1", UpdateRevision: pick(g, "1", "1", "1", "2")}
		g.add(set)
		return
	}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: template}}
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: replicas}
	g.add(deployment)
}

// annotations are the settings of the workload.
func (g *generator) annotations() map[string]string {
	all := map[string]string{"swarm.io/spread": "enabled"}
	set := func(percent int, name string, values ...string) {
		if g.chance(percent) {
			all["swarm.io/"+name] = pick(g, values...)
		}
	}
	set(4, "spread", "disabled")
	set(90, "spot-percentage", "0", "20", "50", "60", "60%", "80", "100")
	set(70, "min-on-demand", "0", "1", "2", "3", "5")
	set(6, "spot-percentage", "101", "abc", "60 %")
	set(4, "min-on-demand", "-1", "two")
	set(15, "spread-settings", "min-on-demand:1,spot-percentage:50", "min-on-demand:0,spot-percentage:100", "?")
	set(10, "pdb-override", "true", "yes")
	set(15, "disruption-windows", g.windows())
	return all
}

// addVolumes adds a claim for each zone, and one that is not bound.
func (g *generator) addVolumes() {
	for _, zone := range []string{"a", "b"} {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-" + zone}}
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "data-" + zone}}
		claim.Spec.VolumeName = volume.Name
		g.add(volume, claim)
	}
	g.add(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "unbound"}})
}

// addPods adds about as many pods as there are replicas. In most clusters nearly all of them are Ready.
func (g *generator) addPods() {
	trouble := pick(g, 5, 5, 20, 80)
	misplaced := pick(g, 0, 20, 50, 100)
	for n := range max(0, g.replicas+pick(g, 0, 0, 0, 0, 0, 0, 0, -1, -2, 1)) {
		pod := g.newPod(n)
		class := pick(g, split.Spot, split.OnDemand)
		pod.Annotations["swarm.io/spread-class"] = string(class)
		if g.chance(misplaced) {
			class = class.Other()
		}
		if nodes := g.nodes[class]; len(nodes) > 0 {
			pod.Spec.NodeName = pick(g, nodes...)
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		if g.chance(g.volumes) {
			own := "data-" + g.zone(class)
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick(g, own, own, "data-a", "unbound", "missing")}}}}
		}
		if g.chance(trouble) {
			g.disturbPod(pod)
		}
		g.add(pod)
	}
}

func (g *generator) newPod(n int) *corev1.Pod {
	pod := newPod(fmt.Sprintf("web-%d", n), g.now.Add(-time.Hour))
	pod.Annotations = map[string]string{}
	if g.kind == v1alpha1.WorkloadStatefulSet {
		pod.Labels = map[string]string{"app": "web"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "web",
			Controller: new(true)}}
	} else {
		pod.Annotations["swarm.io/spread-number"] = strconv.Itoa(n)
	}
	switch {
	case g.fresh:
		pod.CreationTimestamp = metav1.NewTime(g.now.Add(-3 * time.Second))
	case g.chance(5):
		pod.CreationTimestamp = metav1.NewTime(g.now.Add(-g.age()))
	}
	return pod
}

// disturbPod changes one thing about a pod.
func (g *generator) disturbPod(pod *corev1.Pod) {
	pod.CreationTimestamp = metav1.NewTime(g.now.Add(-g.age()))
	switch g.IntN(9) {
	case 0, 1: // Pending
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	case 2: // behind a gate
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/gate"}}
	case 3: // not Ready
		pod.Status.Conditions = nil
	case 4: // terminating
		pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: g.now}, []string{"test/keep"}
	case 5: // failed
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed}
	case 6: // without number or class
		delete(pod.Annotations, "swarm.io/spread-number")
		delete(pod.Annotations, "swarm.io/spread-class")
	case 7: // with the number of another pod
		pod.Annotations["swarm.io/spread-number"] = pick(g, "0", "1", "x")
	case 8: // on a node that is gone
		pod.Spec.NodeName = "gone"
	}
}

func (g *generator) addBudgets() {
	for n := range pick(g, 0, 0, 0, 0, 1, 1, 1, 2) {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint("budget-", n),
			UID: types.UID(fmt.Sprint(n))}}
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, "web", "web", "web", "other")}}
		budget.Status.DisruptionsAllowed = pick[int32](g, 0, 1, 1, 2, 5)
		g.add(budget)
	}
}
