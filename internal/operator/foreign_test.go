package operator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/cache/ondemand"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
)

// largeObjects returns an object of each kind that is cached for all namespaces, as large as the API server accepts.
func largeObjects() []client.Object {
	large := strings.Repeat("x", 200<<10)
	meta := metav1.ObjectMeta{
		Namespace: "elsewhere", Name: "foreign", Labels: map[string]string{"app": "web"},
		Annotations:   map[string]string{"example.test/bulk": large, corev1.LastAppliedConfigAnnotation: large},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`"` + large + `"`)}}},
	}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "any", Args: []string{large}, Env: []corev1.EnvVar{{Name: "BULK", Value: large}}}},
		Volumes:    []corev1.Volume{{Name: large}},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: *meta.DeepCopy(), Spec: pod}
	owned := meta.DeepCopy()
	for n := range 1000 {
		owned.Labels[fmt.Sprintf("example.test/label-%d", n)] = strings.Repeat("x", 63)
	}
	input := &apiextensionsv1.JSON{Raw: []byte(`{"bulk":"` + large[:8000] + `"}`)}
	revision := meta.DeepCopy()
	revision.Labels[v1alpha1.LabelPool] = "forged"
	configMap, service := ondemand.ConfigMaps(), ondemand.Services()
	configMap.ObjectMeta, service.ObjectMeta = *meta.DeepCopy(), *meta.DeepCopy()
	return []client.Object{
		configMap, service,
		&corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: pod,
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: large}}}},
		&appsv1.Deployment{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.DeploymentSpec{Template: template}},
		&appsv1.StatefulSet{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.StatefulSetSpec{
			Template: template, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: *meta.DeepCopy()}},
		}},
		&corev1.Node{ObjectMeta: *meta.DeepCopy(), Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{large}}}}},
		&corev1.Namespace{ObjectMeta: *meta.DeepCopy()},
		&corev1.PersistentVolumeClaim{ObjectMeta: *meta.DeepCopy()},
		&corev1.PersistentVolume{ObjectMeta: *meta.DeepCopy()},
		&policyv1.PodDisruptionBudget{ObjectMeta: *meta.DeepCopy()},
		&appsv1.ControllerRevision{ObjectMeta: *revision, Data: runtime.RawExtension{Raw: []byte(`"` + large + `"`)}},
		&v1alpha1.Swarm{ObjectMeta: *owned}, &v1alpha1.Agent{ObjectMeta: *owned.DeepCopy()},
		&v1alpha1.WorkerPool{ObjectMeta: *owned.DeepCopy()}, &v1alpha1.SwarmSnapshot{ObjectMeta: *owned.DeepCopy()},
		&v1alpha1.Task{ObjectMeta: *owned.DeepCopy(), Spec: v1alpha1.TaskSpec{Payload: input,
			Items: &v1alpha1.TaskItems{List: []apiextensionsv1.JSON{{Raw: []byte(`"` + large + `"`)}}}}},
	}
}

// hostileObjects returns the same objects with 1.4 MB of labels and 256 KiB of annotations each, with names that we know and others, and
// more of what outlines keep than anyone needs. Cluster-scoped objects only get annotations: users of a namespace do not create them.
func hostileObjects() []client.Object {
	const labels, annotations = 1_400_000, 256 << 10
	all := largeObjects()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{ // with the label of a Swarm that does not own it
		Namespace: "elsewhere", Name: "labelled",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.test/v1", Kind: "Swarm", Name: "s", UID: "1", Controller: new(true)}},
	}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{strings.Repeat("x", 1<<20)}}}
	value := strings.Repeat("x", 63)
	all = append(all, set)
	for _, object := range all {
		object.SetAnnotations(map[string]string{
			v1alpha1.Prefix + "x": strings.Repeat("x", annotations/4), v1alpha1.AnnotationPaused: strings.Repeat("x", annotations/4),
			v1alpha1.AnnotationConfigVersion:  strings.Repeat("9", annotations/4),
			v1alpha1.Prefix + "spread-reason": strings.Repeat("x", annotations/4),
		})
		switch object.(type) {
		case *corev1.Node, *corev1.Namespace, *corev1.PersistentVolume:
			continue
		}
		pairs := map[string]string{v1alpha1.LabelSwarm: "s", appsv1.DefaultDeploymentUniqueLabelKey: "abc"}
		for n := range labels / 200 {
			pairs[fmt.Sprintf("example.test/label-%05d", n)], pairs[fmt.Sprintf("swarm.io/label-%05d", n)] = value, value
		}
		object.SetLabels(pairs)
		enlarge(object)
	}
	return all
}

// enlarge adds as much as the API server accepts of what outlines keep.
func enlarge(object client.Object) {
	const many = 10_000
	long := strings.Repeat("x", 100_000)
	chooses := corev1.PodSpec{NodeSelector: map[string]string{}, Tolerations: make([]corev1.Toleration, many)}
	values := make([]string, many)
	for n := range many {
		chooses.NodeSelector[fmt.Sprint("key-", n)], chooses.Tolerations[n].Key = "x", fmt.Sprint("key-", n)
		values[n] = fmt.Sprint("value-", n)
	}
	other := metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: values}
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{other}}
	chooses.Containers = []corev1.Container{{Ports: make([]corev1.ContainerPort, many)}}
	switch object := object.(type) {
	case *corev1.Pod:
		for n := range many {
			object.Spec.SchedulingGates = append(object.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: fmt.Sprint("gate-", n)})
			claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("claim-", n)}
			object.Spec.Volumes = append(object.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
		}
		object.Status.Message = long
	case *appsv1.Deployment:
		object.Spec.Selector, object.Spec.Template.Spec = selector, chooses
	case *appsv1.StatefulSet:
		object.Spec.Selector, object.Spec.Template.Spec, object.Spec.ServiceName = selector, chooses, long
	case *policyv1.PodDisruptionBudget:
		object.Spec.Selector = selector
	case *corev1.PersistentVolumeClaim:
		object.Spec.Selector = selector
	}
	if _, sized := object.(interface{ Size() int }); sized && len(object.GetOwnerReferences()) == 0 { // none of our kinds
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: long, UID: "1", Controller: new(true)}})
		object.SetFinalizers(values)
	}
}

// The operator caches little of foreign objects, whatever they contain.
func TestForeignObjectsCostLittle(t *testing.T) {
	for maxBytes, objects := range map[int][]client.Object{1 << 10: largeObjects(), maxOutlineBytes: hostileObjects()} {
		transforms := transformsByKind(t)
		for _, object := range objects {
			kind := kindOf(t, object)
			transform := transforms[kind]
			if transform == nil {
				t.Errorf("the cache holds every %s unreduced", kind.Kind)
				continue
			}
			kept, err := transform(object)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(kept)
			if err != nil || len(text) > maxBytes {
				t.Errorf("of a foreign %s %d bytes are kept, want at most %d (%v)", kind.Kind, len(text), maxBytes, err)
			}
		}
	}
}

// Kinds that are cached for all namespaces are in the list above, or are a few objects selected by name or label. All our kinds are
// cached.
func TestForeignObjectsOfAllKindsAreKnown(t *testing.T) {
	known := map[schema.GroupVersionKind]bool{}
	for _, object := range largeObjects() {
		known[kindOf(t, object)] = true
	}
	for name, of := range newScheme().KnownTypes(v1alpha1.GroupVersion) {
		_, isObject := reflect.New(of).Interface().(client.Object)
		if kind := v1alpha1.GroupVersion.WithKind(name); isObject && !known[kind] {
			t.Errorf("a %s may cost anything", kind.Kind)
		}
	}
	for object, options := range cacheOptions("home", snapshot.DefaultSettings(), nil, nil).ByObject {
		chosen := options.Field != nil || options.Label != nil || len(options.Namespaces) > 0
		if kind := kindOf(t, object); !chosen && !known[kind] {
			t.Errorf("a foreign %s may cost anything", kind.Kind)
		}
	}
}

func transformsByKind(t *testing.T) map[schema.GroupVersionKind]toolscache.TransformFunc {
	t.Helper()
	found := map[schema.GroupVersionKind]toolscache.TransformFunc{}
	for object, options := range cacheOptions("home", snapshot.DefaultSettings(), nil, nil).ByObject {
		found[kindOf(t, object)] = options.Transform
	}
	return found
}

func kindOf(t *testing.T, object client.Object) schema.GroupVersionKind {
	t.Helper()
	kind, err := apiutil.GVKForObject(object, newScheme())
	if err != nil {
		t.Fatal(fmt.Errorf("kind of %T: %w", object, err))
	}
	return kind
}
