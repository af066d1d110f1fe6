package placement

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
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/swarm-io/swarm-operator/internal/spread"
	"github.com/swarm-io/swarm-operator/internal/survey"
	"github.com/swarm-io/swarm-operator/kit"
)

// A clerk gives configured answers, and records requests.
type clerk struct {
	answer func(context.Context) (Answer, error)
	asked  []Ask
}

func (c *clerk) Place(ctx context.Context, ask Ask) (Answer, error) {
	c.asked = append(c.asked, ask)
	return c.answer(ctx)
}

func says(answer Answer, err error) *clerk {
	return &clerk{answer: func(context.Context) (Answer, error) { return answer, err }}
}

var onSpot = Answer{Managed: true, Number: 3, Class: spread.Spot}

// A counter is the webhook's handler. The namespace shop is in scope, elsewhere is not.
type counter struct {
	*admission.Webhook
	registry *prometheus.Registry
}

func newCounter(t *testing.T, asker Asker, settings survey.Settings) counter {
	t.Helper()
	scheme, registry := runtime.NewScheme(), prometheus.NewRegistry()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	known := newStore(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	scope := Within(known, kit.NewScope(labels.SelectorFromSet(labels.Set{"team": "a"})))
	return counter{Pods(asker, scheme, settings, scope, registry), registry}
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
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "u", Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw}}}
}

// became returns the one outcome that was counted.
func (c counter) became(t *testing.T) outcome {
	t.Helper()
	families, err := c.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "swarm_webhook_request_duration_seconds" || len(families[0].GetMetric()) != 3 {
		t.Fatalf("metrics %v: %v", families, err)
	}
	var found outcome
	for _, metric := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["webhook"] != "spread" {
			t.Errorf("metric of %v", labels)
		}
		if metric.GetHistogram().GetSampleCount() == 1 {
			found = outcome(labels["outcome"])
		}
	}
	return found
}

func TestPodsAreAnswered(t *testing.T) {
	pod := replica("", "abc", nil)
	orphan, job, bound := pod.DeepCopy(), pod.DeepCopy(), creation(t, pod)
	orphan.OwnerReferences, job.OwnerReferences[0].Kind = nil, "Job"
	bound.Object.Raw = []byte(strings.Replace(string(bound.Object.Raw), `"spec":{`, `"spec":{"nodeName":"n",`, 1))
	changed := func(by func(*admission.Request)) admission.Request {
		request := creation(t, pod)
		by(&request)
		return request
	}
	readOnly := standard()
	readOnly.ReadOnly = true
	for _, c := range []struct {
		reason   string
		request  admission.Request
		asker    *clerk
		settings survey.Settings
		want     outcome
		asked    bool
	}{
		{"a pod of a managed workload", creation(t, pod), says(onSpot, nil), standard(), placed, true},
		{"a pod of another workload", creation(t, pod), says(Answer{}, nil), standard(), passed, true},
		{"a pod without an owner", creation(t, orphan), says(onSpot, nil), standard(), passed, false},
		{"a Job's pod", creation(t, job), says(onSpot, nil), standard(), passed, false},
		{"a pod that names its node", bound, says(onSpot, nil), standard(), passed, false},
		{"an update", changed(func(r *admission.Request) { r.Operation = admissionv1.Update }), says(onSpot, nil), standard(), passed, false},
		{"a deletion", changed(func(r *admission.Request) { r.Operation, r.Object.Raw = admissionv1.Delete, nil }), says(onSpot, nil), standard(), passed, false},
		{"an eviction", changed(func(r *admission.Request) { r.SubResource = "eviction" }), says(onSpot, nil), standard(), passed, false},
		{"another namespace", changed(func(r *admission.Request) { r.Namespace = "elsewhere" }), says(onSpot, nil), standard(), passed, false},
		{"a namespace that is not known yet", changed(func(r *admission.Request) { r.Namespace = "new" }), says(onSpot, nil), standard(), passed, false},
		{"read only", creation(t, pod), says(onSpot, nil), readOnly, passed, false},
		{"what is no pod", changed(func(r *admission.Request) { r.Object.Raw = []byte("{") }), says(onSpot, nil), standard(), failed, false},
		{"a failure of ours", creation(t, pod), says(onSpot, errBroken), standard(), failed, true},
		{"a panic of ours", creation(t, pod), &clerk{answer: func(context.Context) (Answer, error) { panic("oh") }}, standard(), failed, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			at := newCounter(t, c.asker, c.settings)
			answer := at.Handle(log.IntoContext(t.Context(), funcr.New(func(string, string) {}, funcr.Options{})), c.request)
			if !answer.Allowed || (len(answer.Patch) > 0) != (c.want == placed) {
				t.Errorf("got %+v", answer)
			}
			if got := at.became(t); got != c.want || len(c.asker.asked) > 0 != c.asked {
				t.Errorf("%s, asked %+v", got, c.asker.asked)
			}
		})
	}
}

func TestWhatIsAsked(t *testing.T) {
	ofSet := replica("db-0", "", nil)
	ofSet.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: new(true)}}
	for _, c := range []struct {
		pod  *corev1.Pod
		dry  *bool
		want Ask
	}{
		{replica("", "abc", nil), nil, Ask{Workload: web, Hash: "abc", Request: "u"}},
		{replica("", "abc", nil), new(true), Ask{Workload: web, Hash: "abc", Request: "u", DryRun: true}},
		{ofSet, new(false), Ask{Workload: db, Pod: "db-0", Request: "u"}},
	} {
		asker, request := says(onSpot, nil), creation(t, c.pod)
		request.DryRun = c.dry
		newCounter(t, asker, standard()).Handle(t.Context(), request)
		if len(asker.asked) != 1 || asker.asked[0] != c.want {
			t.Errorf("asked %+v, want %+v", asker.asked, c.want)
		}
	}
}

// Fields that this program does not know are preserved.
func TestOnlyPlacementIsPatched(t *testing.T) {
	request := creation(t, replica("", "abc", map[string]string{"own": "x"}))
	request.Object.Raw = []byte(strings.Replace(string(request.Object.Raw), `"spec":{`, `"spec":{"ofTomorrow":{"a":1},`, 1))
	answer := newCounter(t, says(onSpot, nil), standard()).Handle(t.Context(), request)
	var patches []struct{ Op, Path string }
	if err := json.Unmarshal(answer.Patch, &patches); err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		if place, _, _ := strings.Cut(strings.TrimPrefix(patch.Path, "/spec/"), "/"); patch.Op != "add" || place != "affinity" && place != "tolerations" && !strings.HasPrefix(patch.Path, "/metadata/annotations/") {
			t.Errorf("%s %s", patch.Op, patch.Path)
		}
	}
	if len(patches) != 5 {
		t.Errorf("patches %s", answer.Patch)
	}
}

// A failure that is the same for every pod of a cluster is logged only occasionally, and a hanging asker times out before the API
// server does.
func TestFailuresAreSaidSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := 0
		at := newCounter(t, &clerk{answer: func(ctx context.Context) (Answer, error) {
			<-ctx.Done()
			return Answer{}, errors.Join(errBroken, ctx.Err())
		}}, standard())
		at.LogConstructor = func(logr.Logger, *admission.Request) logr.Logger {
			return funcr.New(func(_, line string) {
				if said++; !strings.Contains(line, "broken") {
					t.Errorf("said %s", line)
				}
			}, funcr.Options{})
		}
		for range 25 { // of a second each
			if answer := at.Handle(t.Context(), creation(t, replica("", "abc", nil))); !answer.Allowed {
				t.Errorf("got %+v", answer)
			}
		}
		if said != 3 {
			t.Errorf("said %d times", said)
		}
	})
}

// A caller other than the API server writes megabytes into the fields that identify a request.
func TestLogLinesOfRequestsAreShort(t *testing.T) {
	at, line := newCounter(t, says(Answer{}, errBroken), standard()), ""
	construct := at.LogConstructor
	at.LogConstructor = func(_ logr.Logger, request *admission.Request) logr.Logger {
		return construct(funcr.New(func(_, text string) { line = text }, funcr.Options{}), request)
	}
	request := creation(t, replica("", "abc", nil))
	request.UID = types.UID(strings.Repeat("u", 1<<20))
	at.Handle(t.Context(), request)
	if len(line) > 4<<10 || !strings.Contains(line, "passes without a place") {
		t.Errorf("the line has %d bytes: %.300s", len(line), line)
	}
}
