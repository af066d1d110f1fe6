package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/swarm/dispatch"
	"github.com/swarm-io/swarm-operator/internal/swarm/payload"
)

// payloadOfSize returns a payload of so many bytes, and a change that adds it to a task.
func payloadOfSize(size int) (text string, change func(*v1alpha1.TaskSpec)) {
	text = `{"a":"` + strings.Repeat("x", size-8) + `"}`
	return text, func(spec *v1alpha1.TaskSpec) { spec.Payload = &apiextensionsv1.JSON{Raw: []byte(text)} }
}

// A short task costs one write. The cache keeps its payload if it is small; the response to the write of the assignment contains a larger
// one.
func TestPayloadArrivesWholeAndCostsNoRead(t *testing.T) {
	for size, writes := range map[int]int{8: 1, payload.MaxKept: 1, payload.MaxKept + 1: 2, maxPayload: 2} {
		simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
			text, withPayload := payloadOfSize(size)
			sim.submit("t", behavior{duration: 500 * time.Millisecond}, withPayload)
			sim.advance(time.Minute)
			sim.assertCompleted(t, "t", 1)
			if got, reads := sim.store.writeCount("t"), sim.apiReads.Load(); got != writes || reads != 0 {
				t.Errorf("%d bytes: %d writes, want %d, and %d reads past the cache", size, got, writes, reads)
			}
			if !slices.Equal(sim.attempts.payloads, []string{text}) {
				t.Errorf("%d bytes: sent %.100q", size, sim.attempts.payloads)
			}
		})
	}
}

// Each attempt is a separate assignment, which is stored before it is sent. When the response to that write is lost, the payload is read
// once.
func TestLargePayloadIsReadOncePerAssignment(t *testing.T) {
	simulate(t, []string{"a"}, func(t *testing.T, sim *simulation) {
		text, withPayload := payloadOfSize(maxPayload)
		lost := map[int64]bool{}
		sim.faults.setBeforeStore(func(task *v1alpha1.Task) {
			if given := task.Status.AssignedAgents; len(given) > 0 && !lost[given[0].Epoch] {
				lost[given[0].Epoch] = true
				sim.faults.mu.Lock()
				sim.faults.failAfter = 1
				sim.faults.mu.Unlock()
			}
		})
		sim.submit("t", behavior{duration: time.Second, outcome: linkv1.Outcome_OUTCOME_FAILED, reason: "Broken"}, withPayload,
			func(spec *v1alpha1.TaskSpec) {
				spec.Retry = v1alpha1.TaskRetry{Limit: new(int32(2)), InitialSeconds: 1}
			})
		sim.advance(time.Minute)
		if status := sim.status("t"); status.Reason != string(v1alpha1.ReasonRetriesExhausted) || len(lost) != 3 {
			t.Errorf("%d answers were lost\n%s", len(lost), sim.describe())
		}
		if reads := sim.apiReads.Load(); reads != 3 {
			t.Errorf("%d reads past the cache for 3 assignments", reads)
		}
		if !slices.Equal(sim.attempts.payloads, []string{text, text, text}) {
			t.Errorf("sent %.100q", sim.attempts.payloads)
		}
	})
}

// A task that waits, runs or is suspended is reconciled many times. None of that needs its payload.
func TestLargePayloadOfATaskThatWaitsIsNotRead(t *testing.T) {
	simulate(t, nil, func(t *testing.T, sim *simulation) {
		_, withPayload := payloadOfSize(maxPayload)
		sim.submit("t", behavior{duration: time.Second}, withPayload)
		for range 10 {
			sim.store.updateSpec(namespacedName("t"), func(spec *v1alpha1.TaskSpec) { spec.AgentType += "x" })
			sim.advance(time.Second)
		}
		if reads := sim.apiReads.Load(); reads != 0 {
			t.Errorf("%d reads past the cache", reads)
		}
	})
}

// A task that was deleted, and perhaps recreated, is not sent with the payload of another.
func TestPayloadOfATaskThatIsGoneIsNotSent(t *testing.T) {
	sim := newSimulation()
	_, withPayload := payloadOfSize(maxPayload)
	task := sim.submit("t", behavior{}, withPayload)
	payload.Drop(task)
	task.Status.AssignedAgents = []v1alpha1.AssignedAgent{{Name: "a", Epoch: 7}}
	r := &reconciler{apiReader: storeReader{store: sim.store, reads: &sim.apiReads}}
	snapshot := snapshot{payload: taskPayload{byReference: true},
		view: dispatch.TaskView{Assignment: &dispatch.Assignment{Epoch: 7, Unsent: true}}}
	if got, err := r.payloadToSend(t.Context(), task, snapshot); err != nil || len(got) != maxPayload {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	sim.store.delete(namespacedName("t"))
	for _, recreated := range []bool{false, true} {
		if recreated {
			sim.submit("t", behavior{}, withPayload)
		}
		if got, err := r.payloadToSend(t.Context(), task, snapshot); !errors.Is(err, errPayloadGone) || got != nil {
			t.Errorf("recreated %t: got %d bytes, %v", recreated, len(got), err)
		}
	}
}

// configMapClient is a cluster with one ConfigMap, as in the API server.
type configMapClient struct {
	client.Client
	stored *corev1.ConfigMap
}

func (v configMapClient) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	v.stored.DeepCopyInto(object.(*corev1.ConfigMap))
	return nil
}

// A payload in a ConfigMap may have 512 KiB, and thousands of tasks may refer to it. It is parsed once for each version and key.
func TestPayloadInAConfigMapIsParsedOnce(t *testing.T) {
	parses := 0
	stored := &corev1.ConfigMap{Data: map[string]string{"good": `{"a": 1}`, "bad": "[1]"}}
	r := &reconciler{client: configMapClient{stored: stored}, objectChecks: objectCheckCache{onParse: func() { parses++ }}}
	look := func(key string, wrong bool) {
		t.Helper()
		result, err := r.readConfigMap(t.Context(), &v1alpha1.Task{}, v1alpha1.ConfigMapKey{Name: "c", Key: key})
		if err != nil || (result.failure != nil) != wrong {
			t.Errorf("key %q: %+v, %v", key, result.failure, err)
		}
	}
	for n, version := range []struct {
		uid     types.UID
		version string
		data    string
		wrong   bool
	}{{"1", "1", `{"a": 1}`, false}, {"1", "2", `no`, true}, {"2", "2", `{"a": 1}`, false}} {
		stored.UID, stored.ResourceVersion, stored.Data["good"] = version.uid, version.version, version.data
		for range 100 {
			look("good", version.wrong)
			look("bad", true)
		}
		if want := 2 * (n + 1); parses != want {
			t.Errorf("%d texts parsed, want %d", parses, want)
		}
	}
	for n := range 3 * maxObjectChecks {
		r.objectChecks.put(configMapText{"1", "1", strings.Repeat("k", n%64) + string(rune(n))}, true)
		if len(r.objectChecks.valid) > maxObjectChecks {
			t.Fatalf("%d verdicts are kept", len(r.objectChecks.valid))
		}
	}
}
