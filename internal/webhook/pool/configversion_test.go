package pool

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// publishedConfig returns a published ConfigMap of the pool.
func publishedConfig(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{v1alpha1.LabelPool: "pool"}},
		Data:       map[string]string{"config.yml": text},
	}
}

const publishedLists = "version: 7\nworkloads:\n  worker-0:\n    jobs:\n      - a\n    version: 5\n"

func TestNewPodNamesTheVersionOfItsList(t *testing.T) {
	const set, shared, own = v1alpha1.WorkloadStatefulSet, v1alpha1.LayoutShared, v1alpha1.LayoutPerWorker
	foreign := publishedConfig("worker-config", publishedLists)
	foreign.Labels = nil
	for _, c := range []struct {
		reason string
		pod    *corev1.Pod
		layout v1alpha1.ConfigLayout
		config *corev1.ConfigMap
		had    string
		want   string
	}{
		{"its list", workerPod("worker-0", "StatefulSet", "worker"), shared, publishedConfig("worker-config", publishedLists), "", "5"},
		{"its own ConfigMap", workerPod("worker-0", "StatefulSet", "worker"), own, publishedConfig("worker-config-worker-0", publishedLists), "",
			"5"},
		{"no list any more: an earlier file may have one", workerPod("worker-1", "StatefulSet", "worker"), shared,
			publishedConfig("worker-config", publishedLists), "", "7"},
		{"the template has a lower one", workerPod("worker-0", "StatefulSet", "worker"), shared, publishedConfig("worker-config", publishedLists),
			"2", "5"},
		{"the template has a higher one", workerPod("worker-0", "StatefulSet", "worker"), shared,
			publishedConfig("worker-config", publishedLists), "9", "9"},
		{"nothing is published", workerPod("worker-0", "StatefulSet", "worker"), shared, publishedConfig("other", publishedLists), "", ""},
		{"a placeholder", workerPod("worker-0", "StatefulSet", "worker"), shared, publishedConfig("worker-config", ""), "", ""},
		{"not the pool's", workerPod("worker-0", "StatefulSet", "worker"), shared, foreign, "", ""},
		{"not to be read", workerPod("worker-0", "StatefulSet", "worker"), shared, publishedConfig("worker-config", "a: [b"), "", ""},
		{"another workload's pod", workerPod("other-0", "StatefulSet", "other"), shared, publishedConfig("worker-config", publishedLists), "",
			""},
		{"a pod without a name", workerPod("", "StatefulSet", "worker"), shared, publishedConfig("worker-config", publishedLists), "", ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			pool, pod := poolOf(set, c.layout), c.pod
			pool.Spec.Config.Key = "config.yml"
			if c.had != "" {
				pod.Annotations = map[string]string{v1alpha1.AnnotationConfigVersion: c.had}
			}
			live := fake.NewClientBuilder().WithScheme(newTestScheme(t)).WithObjects(c.config).Build()
			if err := (podDefaulter{live: live}).annotateConfigVersion(t.Context(), pod, pool); err != nil {
				t.Fatal(err)
			}
			if got := pod.Annotations[v1alpha1.AnnotationConfigVersion]; got != c.want {
				t.Errorf("version %q, want %q", got, c.want)
			}
		})
	}
}

// A pod that was admitted without a floor cannot be changed; a rejected one is created again.
func TestPodIsRefusedWhileItsListCannotBeRead(t *testing.T) {
	get := func(ctx context.Context, from client.WithWatch, key client.ObjectKey, object client.Object, with ...client.GetOption) error {
		if _, config := object.(*corev1.ConfigMap); config {
			return errors.New("no answer")
		}
		return from.Get(ctx, key, object, with...)
	}
	reader := newTestClient(t, interceptor.Funcs{Get: get})
	answer := review(t, reader, "default", workerPod("worker-0", "StatefulSet", "worker", configMapVolume("worker-config", nil)), false)
	if answer.Allowed || answer.Result.Code != http.StatusInternalServerError ||
		!strings.Contains(answer.Result.Message, `read ConfigMap "worker-config-worker-0": no answer`) {
		t.Errorf("got %+v", answer.Result)
	}
}
