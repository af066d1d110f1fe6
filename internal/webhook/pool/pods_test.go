package pool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

func newTestScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// newTestClient has a PerWorker pool in the namespace default, and another namespace that is out of scope.
func newTestClient(t *testing.T, failing interceptor.Funcs) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(newTestScheme(t)).WithInterceptorFuncs(failing).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		poolOf(v1alpha1.WorkloadStatefulSet, v1alpha1.LayoutPerWorker),
	).Build()
}

// review returns the answer to the API server. Objects in requests may have no namespace; the request has.
func review(t *testing.T, reader client.Reader, namespace string, pod *corev1.Pod, dryRun bool) admission.Response {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	hook := Pods(reader, reader, newTestScheme(t), kit.NewScope(labels.SelectorFromSet(labels.Set{"team": "a"})))
	return hook.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Namespace: namespace, Operation: admissionv1.Create, DryRun: &dryRun, Object: runtime.RawExtension{Raw: raw},
	}})
}

func TestPodsAreAnswered(t *testing.T) {
	equipped := workerPod("worker-0", "StatefulSet", "worker", configMapVolume("worker-config", nil))
	unlabelled, unnamed := equipped.DeepCopy(), equipped.DeepCopy()
	unlabelled.Labels, unnamed.Labels[v1alpha1.LabelPool] = nil, "nobodys"
	for _, c := range []struct {
		reason, in string
		pod        *corev1.Pod
		patched    bool
		told       string
	}{
		{"a worker", "default", equipped, true, ""},
		{"a pod without the label", "default", unlabelled, false, ""},
		{"a pool that is not there", "default", unnamed, false, `there is no WorkerPool "nobodys" in namespace "default": create it first`},
		{"a pool that is not there, out of scope", "elsewhere", unnamed, false, ""},
		{"a namespace that is not known yet", "new", equipped, false, `there is no WorkerPool "pool" in namespace "new": create it first`},
	} {
		for _, dry := range []bool{false, true} {
			t.Run(c.reason, func(t *testing.T) {
				answer := review(t, newTestClient(t, interceptor.Funcs{}), c.in, c.pod, dry)
				if answer.Allowed != (c.told == "") || len(answer.Patch) > 0 != c.patched {
					t.Errorf("got %+v", answer)
				}
				if c.told != "" && (answer.Result.Code != http.StatusForbidden || !strings.Contains(answer.Result.Message, c.told)) {
					t.Errorf("told %+v", answer.Result)
				}
			})
		}
	}
}

// Fields that this program does not know are preserved.
func TestOnlyTheVolumeIsPatched(t *testing.T) {
	answer := review(t, newTestClient(t, interceptor.Funcs{}), "default",
		workerPod("worker-0", "StatefulSet", "worker", emptyDirVolume, configMapVolume("worker-config", nil)), false)
	var patches []struct{ Path string }
	if err := json.Unmarshal(answer.Patch, &patches); err != nil || len(patches) != 2 {
		t.Errorf("got %s: %v", answer.Patch, err)
	}
	for _, patch := range patches {
		if !strings.HasPrefix(patch.Path, "/spec/volumes/1/configMap/") {
			t.Errorf("patches %s", patch.Path)
		}
	}
}

func TestReadFailureIsAnInternalError(t *testing.T) {
	reader := newTestClient(t,
		interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no cache yet")
		}})
	answer := review(t, reader, "default", workerPod("worker-0", "StatefulSet", "worker"), false)
	if answer.Allowed || answer.Result.Code != http.StatusInternalServerError || !strings.Contains(answer.Result.Message, "no cache yet") {
		t.Errorf("got %+v", answer.Result)
	}
}
