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
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/ondemand"
	"github.com/swarm-io/swarm-operator/internal/survey"
)

// foreign returns an object of each kind of which the cache holds those of all namespaces, with as much in it as the API server takes.
func foreign() []client.Object {
	bulk := strings.Repeat("x", 200<<10)
	meta := metav1.ObjectMeta{
		Namespace: "elsewhere", Name: "foreign", Labels: map[string]string{"app": "web"},
		Annotations:   map[string]string{"example.test/bulk": bulk, corev1.LastAppliedConfigAnnotation: bulk},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`"` + bulk + `"`)}}},
	}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "any", Args: []string{bulk}, Env: []corev1.EnvVar{{Name: "BULK", Value: bulk}}}},
		Volumes:    []corev1.Volume{{Name: bulk}},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: *meta.DeepCopy(), Spec: pod}
	ours := meta.DeepCopy()
	for n := range 1000 {
		ours.Labels[fmt.Sprintf("example.test/label-%d", n)] = strings.Repeat("x", 63)
	}
	input := &apiextensionsv1.JSON{Raw: []byte(`{"bulk":"` + bulk[:8000] + `"}`)}
	configMap, service := ondemand.ConfigMaps(), ondemand.Services()
	configMap.ObjectMeta, service.ObjectMeta = *meta.DeepCopy(), *meta.DeepCopy()
	return []client.Object{
		configMap, service,
		&corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: pod, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: bulk}}}},
		&appsv1.Deployment{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.DeploymentSpec{Template: template}},
		&appsv1.StatefulSet{ObjectMeta: *meta.DeepCopy(), Spec: appsv1.StatefulSetSpec{
			Template: template, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: *meta.DeepCopy()}},
		}},
		&corev1.Node{ObjectMeta: *meta.DeepCopy(), Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{bulk}}}}},
		&corev1.Namespace{ObjectMeta: *meta.DeepCopy()},
		&corev1.PersistentVolumeClaim{ObjectMeta: *meta.DeepCopy()},
		&corev1.PersistentVolume{ObjectMeta: *meta.DeepCopy()},
		&policyv1.PodDisruptionBudget{ObjectMeta: *meta.DeepCopy()},
		&v1alpha1.Swarm{ObjectMeta: *ours}, &v1alpha1.Agent{ObjectMeta: *ours.DeepCopy()},
		&v1alpha1.WorkerPool{ObjectMeta: *ours.DeepCopy()}, &v1alpha1.SwarmSnapshot{ObjectMeta: *ours.DeepCopy()},
		&v1alpha1.Task{ObjectMeta: *ours.DeepCopy(), Spec: v1alpha1.TaskSpec{Payload: input, Items: &v1alpha1.TaskItems{List: []apiextensionsv1.JSON{{Raw: []byte(`"` + bulk + `"`)}}}}},
	}
}

// Whatever others have in a cluster, the operator remembers little of it.
func TestForeignObjectsCostLittle(t *testing.T) {
	const most = 1 << 10
	transforms := transformsByKind(t)
	for _, object := range foreign() {
		kind := kindOf(t, object)
		transform := transforms[kind]
		if transform == nil {
			t.Errorf("the cache holds every %s as it is", kind.Kind)
			continue
		}
		kept, err := transform(object)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(kept)
		if err != nil || len(text) > most {
			t.Errorf("of a foreign %s %d bytes are kept, want at most %d (%v)", kind.Kind, len(text), most, err)
		}
	}
}

// What is cached of all namespaces is in the list above, or is one of a few objects that are chosen by name or label. All kinds of ours are cached.
func TestForeignObjectsOfAllKindsAreKnown(t *testing.T) {
	known := map[schema.GroupVersionKind]bool{}
	for _, object := range foreign() {
		known[kindOf(t, object)] = true
	}
	for name, of := range scheme().KnownTypes(v1alpha1.GroupVersion) {
		_, isObject := reflect.New(of).Interface().(client.Object)
		if kind := v1alpha1.GroupVersion.WithKind(name); isObject && !known[kind] {
			t.Errorf("a %s may cost anything", kind.Kind)
		}
	}
	for object, options := range caches("home", survey.Standard()).ByObject {
		chosen := options.Field != nil || options.Label != nil || len(options.Namespaces) > 0
		if kind := kindOf(t, object); !chosen && !known[kind] {
			t.Errorf("a foreign %s may cost anything", kind.Kind)
		}
	}
}

func transformsByKind(t *testing.T) map[schema.GroupVersionKind]toolscache.TransformFunc {
	t.Helper()
	found := map[schema.GroupVersionKind]toolscache.TransformFunc{}
	for object, options := range caches("home", survey.Standard()).ByObject {
		found[kindOf(t, object)] = options.Transform
	}
	return found
}

func kindOf(t *testing.T, object client.Object) schema.GroupVersionKind {
	t.Helper()
	kind, err := apiutil.GVKForObject(object, scheme())
	if err != nil {
		t.Fatal(fmt.Errorf("kind of %T: %w", object, err))
	}
	return kind
}
