package operator

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/kit"
)

// clientManager has a client and nothing else.
type clientManager struct {
	manager.Manager
}

func (clientManager) GetClient() client.Client {
	return fake.NewClientBuilder().WithScheme(newScheme()).Build()
}

// newTestDeps returns the components of an operator with this configuration.
func newTestDeps(change func(*Config)) deps {
	config := Defaults()
	change(&config)
	return deps{
		Operator: &kit.Operator{Manager: clientManager{}}, config: config, webhookGate: &webhookGate{now: time.Now},
		env: Environment{Namespace: "system", Log: slog.New(slog.DiscardHandler)},
	}
}

func inNamespaces(namespaces string) func(*Config) {
	return func(c *Config) { c.Controller.Namespaces = namespaces }
}

// An invalid selector must not select everything.
func TestScopeThatCannotBeReadIsAnError(t *testing.T) {
	config := Defaults()
	config.Controller.NamespaceSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team",
		Operator: "Near"}}}
	if scope, err := config.scope(); err == nil || scope != nil {
		t.Errorf("got %v, %v", scope, err)
	}
}

// Nodes are cluster-scoped: a confined operator has no rights to them, and must not even begin to watch them.
func TestConfinedOperatorDoesNotSpread(t *testing.T) {
	p := newTestDeps(inNamespaces("a"))
	if err := p.addSpread(t.Context()); err != nil {
		t.Error(err)
	}
	if peers := p.peers(); peers.ClientCAs != nil || peers.Register != nil {
		t.Error("other replicas may ask for placements that no one decides")
	}
}

// Without the webhook no replacement gets its place, so nothing may be moved.
func TestNothingIsCoveredWithoutTheWebhook(t *testing.T) {
	p := newTestDeps(func(c *Config) { c.Webhook.Enabled = false })
	covered, never := p.namespaceSelector().Covers(t.Context(), "demo")
	if covered || !strings.HasPrefix(never, "webhook.enabled is false") {
		t.Errorf("covered %t, %q", covered, never)
	}
	if _, never = newTestDeps(func(*Config) {}).namespaceSelector().Covers(t.Context(), "demo"); strings.Contains(never, "webhook.enabled") {
		t.Errorf("with a webhook: %q", never)
	}
}

// The keys that verify agents cannot be read: the operator does not start, and names the missing right.
func TestConfinedOperatorNeedsTheKeysOfTheCluster(t *testing.T) {
	for code, hint := range map[int]bool{http.StatusForbidden: true, http.StatusInternalServerError: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		p := newTestDeps(inNamespaces("a"))
		p.cluster = &rest.Config{Host: server.URL}
		_, err := p.authenticator(t.Context())
		if err == nil || strings.Contains(err.Error(), "ClusterRole system:service-account-issuer-discovery") != hint {
			t.Errorf("%d: got %v", code, err)
		}
		server.Close()
	}
}

// client.qps and client.burst are one limit for all kinds together.
func TestRequestsOfAllKindsHaveOneLimit(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}))
	defer server.Close()
	kinds := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret", "Service"} {
		kinds.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	few, live, err := newLimitedClients(limit.Budget{PerSecond: 0, Burst: 2, Share: 100})(&rest.Config{Host: server.URL, QPS: -1},
		client.Options{Scheme: newScheme(), Mapper: kinds})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a request that would have to wait longer fails at once
	defer cancel()
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}} {
		_ = few.Get(ctx, client.ObjectKey{Namespace: "a", Name: "b"}, object)
	}
	_ = live.Get(ctx, client.ObjectKey{Namespace: "a", Name: "b"}, &corev1.Secret{})
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

// Volumes may bind a pod to its zone. Those that cannot are not kept.
func TestOutlineOfPodKeepsItsClaims(t *testing.T) {
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-w-0"}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "data", VolumeSource: claim},
	}}}
	kept := outline(pod).(*corev1.Pod)
	if want := []corev1.Volume{{VolumeSource: claim}}; kept.Spec.NodeName != "n" || !equality.Semantic.DeepEqual(kept.Spec.Volumes, want) {
		t.Errorf("kept %+v", kept.Spec)
	}
}

func TestSchemeKnowsWhatTheOperatorWrites(t *testing.T) {
	for _, kind := range []schema.GroupVersionKind{
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}, {Version: "v1", Kind: "Pod"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "autoscaling", Version: "v1", Kind: "Scale"},
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, {Group: "policy", Version: "v1", Kind: "Eviction"},
		{Group: "swarm.io", Version: "v1alpha1", Kind: "WorkerPool"},
	} {
		if !newScheme().Recognizes(kind) {
			t.Errorf("%s is not known", kind)
		}
	}
}
