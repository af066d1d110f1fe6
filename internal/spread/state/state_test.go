package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/testkit/build"
	"github.com/swarm-io/swarm-operator/internal/workload"
)

func TestWindowsPrecedence(t *testing.T) {
	settings := build.Settings()
	settings.Windows = "configured"
	namespace := func(text string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Web.Namespace,
			Annotations: map[string]string{"swarm.io/disruption-windows": text}}}
	}
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		own, want string
	}{
		"no windows":         {namespace(" "), "", "configured"},
		"no such namespace":  {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, "", "configured"},
		"the namespace says": {namespace("namespace's"), "", "namespace's"},
		"the workload says":  {namespace("namespace's"), "own", "own"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, known := range []map[string]string{nil, {}, {build.Web.Namespace: "remembered"}} {
				r := Reader{Reader: fake.NewClientBuilder().WithObjects(test.namespace).Build(), Settings: settings, Windows: known}
				want := test.want
				if len(known) > 0 && test.own == "" {
					want = "remembered"
				}
				web := snapshot.Objects{Workload: workload.Workload{Key: build.Web}, Spec: snapshot.Spec{Windows: test.own}}
				got, err := r.windowsText(t.Context(), web)
				if got != want || err != nil {
					t.Errorf("%q counts, want %q: %v", got, want, err)
				}
			}
		})
	}
}
