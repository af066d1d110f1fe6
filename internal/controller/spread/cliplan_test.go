package spread

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/cli"
	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	workloads "github.com/swarm-io/swarm-operator/internal/workload"
	"github.com/swarm-io/swarm-operator/kit"
)

// generatedClusters is how many clusters the command line and the controller have to agree on.
const generatedClusters = 200

// outcome is what is about to happen to a workload, as the command line shows it or as the controller does it.
type outcome struct {
	Managed, Invalid       bool
	Policy, Wanted, Actual string
	Status, Reason         string
	Moves                  []string // the first that are made, now or after waiting
	Waits                  bool     // before the first moves
}

// What `kubectl swarm plan spread` shows first is exactly what a reconciler does first: the same pods in the same order, in the same way
// and for the same reason, with the same status.
func TestX12_SpreadPlansAgree(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	different, seen := map[string]bool{}, map[string]int{}
	for seed := range uint64(generatedClusters) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			kind, objects := generateCluster(seed, noon)
			content, err := json.Marshal(objects)
			if err != nil {
				t.Fatal(err)
			}
			different[string(content)] = true
			s := newGeneratedHarness(t, objects)
			shown, done := s.planWithCLI(kind), s.reconcileUntilMoves(kind)
			done.count(seen)
			done.Waits = shown.Waits // a plan says no times
			if got, want := fmt.Sprintf("%+v", shown), fmt.Sprintf("%+v", done); got != want {
				t.Errorf("the command line shows\n%s\nthe controller does\n%s", got, want)
			}
		})
	}
	if len(different) != generatedClusters {
		t.Errorf("only %d of %d clusters are different", len(different), generatedClusters)
	}
	for what, least := range map[string]int{"with moves": 60, "moves after waiting": 10, "evict": 50, "delete": 30, "": 5, "Balanced": 10,
		"Rebalancing": 50, "SpotUnavailable": 10, "BlockedByPDB": 5, "Invalid": 20} {
		if seen[what] < least {
			t.Errorf("%q is seen %d times, want at least %d: %v", what, seen[what], least, seen)
		}
	}
}

// count counts what happens in the clusters.
func (o outcome) count(seen map[string]int) {
	status, _, _ := strings.Cut(o.Status, ":")
	seen[status]++
	for _, move := range o.Moves {
		verb, _, _ := strings.Cut(move, " ")
		seen[verb]++
	}
	if len(o.Moves) > 0 {
		seen["with moves"]++
		if o.Waits {
			seen["moves after waiting"]++
		}
	}
}

// newGeneratedHarness has a new leader with the default settings.
func newGeneratedHarness(t *testing.T, objects []client.Object) *harness {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	s := &harness{t: t, covered: true, clock: noon, removeErrs: map[string]error{}, removed: map[string]string{}}
	s.cluster = fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
	s.startLeader()
	s.settings = snapshot.DefaultSettings()
	s.nodes.settings, s.states = s.settings, newStateStore(s.settings)
	return s
}

// planWithCLI returns what the command line shows.
func (s *harness) planWithCLI(kind v1alpha1.WorkloadKind) outcome {
	s.t.Helper()
	var out, errOut bytes.Buffer
	program := cli.Program{
		IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, Now: func() time.Time { return s.clock },
		Connect: func() (client.Client, error) { return s.cluster, nil },
	}
	code := program.Run(s.t.Context(), []string{"plan", "spread", string(kind) + "/web", "-n", "demo", "-o", "json"})
	if code != 0 {
		return s.parseCLIError(errOut.String())
	}
	var shown struct {
		Policy, Wanted, Actual, Status, Reason, Problem string
		Steps                                           [][]struct{ Pod, Verb, From, To, Reason string }
	}
	if err := json.Unmarshal(out.Bytes(), &shown); err != nil {
		s.t.Fatalf("%v in %s", err, out.String())
	}
	result := outcome{Managed: true, Policy: shown.Policy, Wanted: shown.Wanted, Actual: shown.Actual, Status: shown.Status,
		Reason: shown.Reason}
	switch shown.Status {
	case v1alpha1.SpreadInvalid:
		result.Status, result.Reason = shown.Status+": "+shown.Problem, ""
	case v1alpha1.SpreadBalanced:
		result.Reason = ""
	}
	if len(shown.Steps) > 0 {
		for _, move := range shown.Steps[0] {
			result.Moves = append(result.Moves, fmt.Sprintf("%s %s", move.Verb, formatMove(move.Pod, move.From, move.To, move.Reason)))
		}
	}
	return result
}

// parseCLIError returns what the command line refuses to plan: nothing would happen.
func (s *harness) parseCLIError(text string) outcome {
	s.t.Helper()
	_, problem, invalid := strings.Cut(strings.TrimSpace(text), "its setting is invalid: ")
	switch {
	case invalid:
		return outcome{Managed: true, Invalid: true, Status: "Invalid: " + problem}
	case strings.Contains(text, "it is not spread"):
		return outcome{}
	}
	s.t.Fatal(text)
	return outcome{}
}

// reconcileUntilMoves returns what a new leader reports first, and the first moves that it makes: at once, or when it reconciles again
// without any change.
func (s *harness) reconcileUntilMoves(kind v1alpha1.WorkloadKind) outcome {
	s.t.Helper()
	const maxReconciles = 100
	var first outcome
	for n := range maxReconciles {
		result := s.reconcileKind(kind)
		if n == 0 {
			first = s.reported(kind)
		}
		if first.Moves = s.moves(); len(first.Moves) > 0 || result == kit.Done() {
			break
		}
		first.Waits = true
		delay := reflect.ValueOf(result).FieldByName("delay").Int() // results are opaque
		s.clock = s.clock.Add(time.Duration(delay))
	}
	return first
}

func (s *harness) reconcileKind(kind v1alpha1.WorkloadKind) (result kit.Result) {
	s.t.Helper()
	ctx := log.IntoContext(s.t.Context(), logr.Discard())
	var err error
	switch object := s.workload(kind).(type) {
	case *appsv1.StatefulSet:
		result, err = (&reconciler[*appsv1.StatefulSet]{s.controller, kind, workloads.StatefulSet}).Reconcile(ctx, object)
	case *appsv1.Deployment:
		result, err = s.Reconcile(ctx, object)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

func (s *harness) workload(kind v1alpha1.WorkloadKind) client.Object {
	s.t.Helper()
	var object client.Object = &appsv1.Deployment{}
	if kind == v1alpha1.WorkloadStatefulSet {
		object = &appsv1.StatefulSet{}
	}
	if err := s.cluster.Get(s.t.Context(), client.ObjectKey{Namespace: "demo", Name: "web"}, object); err != nil {
		s.t.Fatal(err)
	}
	return object
}

// reported returns what the controller has written to the workload.
func (s *harness) reported(kind v1alpha1.WorkloadKind) outcome {
	s.t.Helper()
	written := func(name string) string { return s.workload(kind).GetAnnotations()["swarm.io/"+name] }
	status := written("spread-status")
	switch {
	case status == "":
		return outcome{}
	case written("desired-distribution") == "": // no policy is in force
		return outcome{Managed: true, Invalid: true, Status: status}
	}
	return outcome{
		Managed: true, Policy: written("spread-settings"), Wanted: written("desired-distribution"), Actual: written("current-distribution"),
		Status: status, Reason: written("spread-reason"),
	}
}

// moves returns the pods that the controller has removed, with its reasons from the events.
func (s *harness) moves() []string {
	var moves []string
	for _, write := range s.writes {
		verb, pod, _ := strings.Cut(write, " ")
		if verb == "annotate" {
			continue
		}
		event := slices.IndexFunc(s.recorded, func(event recordedEvent) bool { return event.pod == pod })
		if event < 0 {
			s.t.Fatalf("no event for pod %s", pod)
		}
		moves = append(moves, verb+" "+s.recorded[event].note)
	}
	return moves
}

// formatMove is the text of the event.
func formatMove(pod, from, to, reason string) string {
	return fmt.Sprintf("pod %s moves from %s to %s nodes: %s", pod, from, to, reason)
}
