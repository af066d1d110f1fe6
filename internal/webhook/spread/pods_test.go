package spread

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/internal/spread/allocator"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/split"
	"github.com/swarm-io/swarm-operator/internal/testkit/build"
	"github.com/swarm-io/swarm-operator/kit"
)

// A recordingPlacer gives configured answers, and records requests.
type recordingPlacer struct {
	place    func(context.Context) (allocator.Placement, error)
	requests []allocator.Request
}

func (c *recordingPlacer) Place(ctx context.Context, ask allocator.Request) (allocator.Placement, error) {
	c.requests = append(c.requests, ask)
	return c.place(ctx)
}

func placerReturning(answer allocator.Placement, err error) *recordingPlacer {
	return &recordingPlacer{place: func(context.Context) (allocator.Placement, error) { return answer, err }}
}

var errPlacer = errors.New("broken")

var onSpot = allocator.Placement{Managed: true, Number: 3, Class: split.Spot}

// A testWebhook is the webhook's handler. The namespace shop is in scope, elsewhere is not.
type testWebhook struct {
	*admission.Webhook
	registry *prometheus.Registry
}

func newTestWebhook(t *testing.T, placer allocator.Placer, settings snapshot.Settings) testWebhook {
	t.Helper()
	scheme, registry := runtime.NewScheme(), prometheus.NewRegistry()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	inScope := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	reader := fake.NewClientBuilder().WithObjects(inScope, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}).Build()
	scope := InScope(reader, kit.NewScope(labels.SelectorFromSet(labels.Set{"team": "a"})))
	return testWebhook{Pods(placer, scheme, settings, scope, registry), registry}
}

// creation returns a request to create a pod. The request has the namespace, its pod need not.
func creation(t *testing.T, pod *corev1.Pod) admission.Request {
	t.Helper()
	bare := pod.DeepCopy()
	bare.Namespace, bare.Spec.NodeName = "", ""
	raw, err := json.Marshal(bare)
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "u", Namespace: "shop", Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: raw}}}
}

// outcome returns the one outcome that was counted.
func (w testWebhook) outcome(t *testing.T) outcome {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "swarm_webhook_request_duration_seconds" ||
		len(families[0].GetMetric()) != 3 {
		t.Fatalf("metrics %v: %v", families, err)
	}
	var result outcome
	for _, metric := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["webhook"] != "spread" {
			t.Errorf("metric of %v", labels)
		}
		if metric.GetHistogram().GetSampleCount() == 1 {
			result = outcome(labels["outcome"])
		}
	}
	return result
}

func TestHandle(t *testing.T) {
	pod := build.Pod("", "abc", nil)
	orphan, job, bound := pod.DeepCopy(), pod.DeepCopy(), creation(t, pod)
	orphan.OwnerReferences, job.OwnerReferences[0].Kind = nil, "Job"
	bound.Object.Raw = []byte(strings.Replace(string(bound.Object.Raw), `"spec":{`, `"spec":{"nodeName":"n",`, 1))
	changed := func(by func(*admission.Request)) admission.Request {
		request := creation(t, pod)
		by(&request)
		return request
	}
	readOnly := build.Settings()
	readOnly.ReadOnly = true
	for _, c := range []struct {
		reason   string
		request  admission.Request
		asker    *recordingPlacer
		settings snapshot.Settings
		want     outcome
		asked    bool
	}{
		{"a pod of a managed workload", creation(t, pod), placerReturning(onSpot, nil), build.Settings(), outcomePlaced, true},
		{"a pod of another workload", creation(t, pod), placerReturning(allocator.Placement{}, nil), build.Settings(), outcomePassed, true},
		{"a pod without an owner", creation(t, orphan), placerReturning(onSpot, nil), build.Settings(), outcomePassed, false},
		{"a Job's pod", creation(t, job), placerReturning(onSpot, nil), build.Settings(), outcomePassed, false},
		{"a pod that names its node", bound, placerReturning(onSpot, nil), build.Settings(), outcomePassed, false},
		{"an update", changed(func(r *admission.Request) { r.Operation = admissionv1.Update }), placerReturning(onSpot, nil), build.Settings(),
			outcomePassed, false},
		{"a deletion", changed(func(r *admission.Request) { r.Operation, r.Object.Raw = admissionv1.Delete, nil }), placerReturning(onSpot, nil),
			build.Settings(), outcomePassed, false},
		{"an eviction", changed(func(r *admission.Request) { r.SubResource = "eviction" }), placerReturning(onSpot, nil), build.Settings(),
			outcomePassed, false},
		{"another namespace", changed(func(r *admission.Request) { r.Namespace = "elsewhere" }), placerReturning(onSpot, nil), build.Settings(),
			outcomePassed, false},
		{"a namespace that is not known yet", changed(func(r *admission.Request) { r.Namespace = "new" }), placerReturning(onSpot, nil),
			build.Settings(), outcomePassed, false},
		{"read only", creation(t, pod), placerReturning(onSpot, nil), readOnly, outcomePassed, false},
		{"what is no pod", changed(func(r *admission.Request) { r.Object.Raw = []byte("{") }), placerReturning(onSpot, nil), build.Settings(),
			outcomeFailed, false},
		{"a failure of ours", creation(t, pod), placerReturning(onSpot, errPlacer), build.Settings(), outcomeFailed, true},
		{"a panic of ours", creation(t, pod), &recordingPlacer{place: func(context.Context) (allocator.Placement, error) { panic("oh") }},
			build.Settings(), outcomeFailed, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			webhook := newTestWebhook(t, c.asker, c.settings)
			answer := webhook.Handle(log.IntoContext(t.Context(), funcr.New(func(string, string) {}, funcr.Options{})), c.request)
			if !answer.Allowed || (len(answer.Patch) > 0) != (c.want == outcomePlaced) {
				t.Errorf("got %+v", answer)
			}
			if got := webhook.outcome(t); got != c.want || len(c.asker.requests) > 0 != c.asked {
				t.Errorf("%s, asked %+v", got, c.asker.requests)
			}
		})
	}
}

func TestRequestToPlacer(t *testing.T) {
	ofSet := build.Pod("db-0", "", nil)
	ofSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: new(true)}}
	for _, c := range []struct {
		pod  *corev1.Pod
		dry  *bool
		want allocator.Request
	}{
		{build.Pod("", "abc", nil), nil, allocator.Request{Workload: build.Web, TemplateHash: "abc", UID: "u"}},
		{build.Pod("", "abc", nil), new(true), allocator.Request{Workload: build.Web, TemplateHash: "abc", UID: "u", DryRun: true}},
		{ofSet, new(false), allocator.Request{Workload: build.DB, PodName: "db-0", UID: "u"}},
	} {
		placer, request := placerReturning(onSpot, nil), creation(t, c.pod)
		request.DryRun = c.dry
		newTestWebhook(t, placer, build.Settings()).Handle(t.Context(), request)
		if len(placer.requests) != 1 || placer.requests[0] != c.want {
			t.Errorf("asked %+v, want %+v", placer.requests, c.want)
		}
	}
}

// Fields that this program does not know are preserved.
func TestOnlyPlacementIsPatched(t *testing.T) {
	request := creation(t, build.Pod("", "abc", map[string]string{"own": "x"}))
	request.Object.Raw = []byte(strings.Replace(string(request.Object.Raw), `"spec":{`, `"spec":{"ofTomorrow":{"a":1},`, 1))
	answer := newTestWebhook(t, placerReturning(onSpot, nil), build.Settings()).Handle(t.Context(), request)
	var patches []struct{ Op, Path string }
	if err := json.Unmarshal(answer.Patch, &patches); err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		if place, _, _ := strings.Cut(strings.TrimPrefix(patch.Path, "/spec/"), "/"); patch.Op != "add" ||
			place != "affinity" && place != "tolerations" && !strings.HasPrefix(patch.Path, "/metadata/annotations/") {
			t.Errorf("%s %s", patch.Op, patch.Path)
		}
	}
	if len(patches) != 5 {
		t.Errorf("patches %s", answer.Patch)
	}
}

// A failure that is the same for every pod of a cluster is logged only occasionally, and a hanging placer times out before the API server
// does.
func TestFailuresAreLoggedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := 0
		webhook := newTestWebhook(t, &recordingPlacer{place: func(ctx context.Context) (allocator.Placement, error) {
			<-ctx.Done()
			return allocator.Placement{}, errors.Join(errPlacer, ctx.Err())
		}}, build.Settings())
		webhook.LogConstructor = func(logr.Logger, *admission.Request) logr.Logger {
			return funcr.New(func(_, line string) {
				if lines++; !strings.Contains(line, "broken") {
					t.Errorf("said %s", line)
				}
			}, funcr.Options{})
		}
		for range 25 { // of a second each
			if answer := webhook.Handle(t.Context(), creation(t, build.Pod("", "abc", nil))); !answer.Allowed {
				t.Errorf("got %+v", answer)
			}
		}
		if lines != 3 {
			t.Errorf("said %d times", lines)
		}
	})
}

// A caller other than the API server writes megabytes into the fields that identify a request.
func TestLogLinesOfRequestsAreShort(t *testing.T) {
	webhook, line := newTestWebhook(t, placerReturning(allocator.Placement{}, errPlacer), build.Settings()), ""
	construct := webhook.LogConstructor
	webhook.LogConstructor = func(_ logr.Logger, request *admission.Request) logr.Logger {
		return construct(funcr.New(func(_, text string) { line = text }, funcr.Options{}), request)
	}
	request := creation(t, build.Pod("", "abc", nil))
	request.UID = types.UID(strings.Repeat("u", 1<<20))
	webhook.Handle(t.Context(), request)
	if len(line) > 4<<10 || !strings.Contains(line, "admitted a pod without a placement") {
		t.Errorf("the line has %d bytes: %.300s", len(line), line)
	}
}
