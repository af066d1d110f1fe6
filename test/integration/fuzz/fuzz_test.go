package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// perRound is how many steps are taken in one namespace before the operator must become idle.
	perRound = 150
	// minAccepted is the share of the objects of each kind that the API server has to accept: otherwise the fuzzer tests the API server alone.
	minAccepted = 0.25
	// namespaceDeletionTimeout is how long the deletion of a namespace may take.
	namespaceDeletionTimeout = 2 * time.Minute
)

var _ = Describe("Random objects", Serial, func() {
	It("neither stop the operator nor keep it busy, are explained, and leave an empty namespace", func(ctx SpecContext) {
		steps, seed := number("FUZZ_OBJECTS", perRound), number("FUZZ_SEED", 1)
		AddReportEntry("seed", ReportEntryVisibilityAlways, fmt.Sprintf("FUZZ_SEED=%d FUZZ_OBJECTS=%d", seed, steps))
		o, total := start(ctx), acceptCounts{}
		for n := uint64(0); n*perRound < steps; n++ {
			r := newRound(ctx, o, newWriter(seed, n), total)
			for range min(perRound, steps-n*perRound) {
				r.runStep(ctx)
			}
			r.settleAndCheck(ctx)
		}
		o.expectHealthy(ctx)
		AddReportEntry("accepted", ReportEntryVisibilityAlways, total.String())
		total.expectMinAccepted()
	})

	It("are the same for the same seed", func() {
		one, two, other := newWriter(3, 1), newWriter(3, 1), newWriter(4, 1)
		same := 0
		for range 300 {
			step := one.nextStep().String()
			Expect(two.nextStep().String()).To(Equal(step))
			if other.nextStep().String() == step {
				same++
			}
		}
		Expect(same).To(BeNumerically("<", 10))
	})
})

// A tally counts the API server's responses to creates, by kind.
type acceptCounts map[string]*struct{ asked, accepted int }

func (t acceptCounts) count(kind string, err error) {
	if t[kind] == nil {
		t[kind] = &struct{ asked, accepted int }{}
	}
	t[kind].asked++
	if err == nil {
		t[kind].accepted++
	}
}

func (t acceptCounts) String() string {
	var counts []string
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		counts = append(counts, fmt.Sprintf("%s %d of %d", kind, t[kind].accepted, t[kind].asked))
	}
	return strings.Join(counts, "; ")
}

func (t acceptCounts) expectMinAccepted() {
	GinkgoHelper()
	for _, kind := range []string{"Swarm", "Agent", "Task", "WorkerPool", "SwarmSnapshot"} {
		Expect(t).To(HaveKey(kind))
		Expect(float64(t[kind].accepted)).To(BeNumerically(">=", minAccepted*float64(t[kind].asked)), "%s: %s", kind, t)
		Expect(t[kind].accepted).To(BeNumerically(">", 0), kind)
	}
}

// A round is what happens in one namespace.
type round struct {
	operator  operator
	writer    *writer
	tally     acceptCounts
	namespace string
}

func newRound(ctx context.Context, o operator, w *writer, total acceptCounts) round {
	GinkgoHelper()
	r := round{o, w, total, namespace(ctx, map[string]string{"fuzz": o.label})}
	account := client.ObjectKey{Namespace: r.namespace, Name: "default"}
	Eventually(cluster.API.Get).WithContext(ctx).WithArguments(account, &corev1.ServiceAccount{}).Should(Succeed())
	return r
}

// runStep takes one step. The API server may refuse it.
func (r round) runStep(ctx context.Context) {
	GinkgoHelper()
	s := r.writer.nextStep()
	object, err := s.toUnstructured(r.namespace), error(nil)
	switch s.verb {
	case create:
		err = r.create(ctx, s)
	case mutate, annotate:
		err = r.patch(ctx, s, s.object)
	case remove:
		err = cluster.API.Delete(ctx, object, client.PropagationPolicy(s.policy))
	}
	answer := "ok"
	if err != nil {
		answer = fmt.Sprintf("%.300s", err)
		Expect(apierrors.ReasonForError(err)).NotTo(BeElementOf(metav1.StatusReasonInternalError, metav1.StatusReasonUnknown), "%s: %s", s, err)
	}
	GinkgoWriter.Printf("%s step %s: %s\n", time.Now().Format("15:04:05.000"), s, answer)
}

// create creates an object, or updates the spec of the existing one.
func (r round) create(ctx context.Context, s fuzzStep) error {
	err := cluster.API.Create(ctx, s.toUnstructured(r.namespace))
	if !apierrors.IsAlreadyExists(err) {
		r.tally.count(s.kind, err)
		return err
	}
	return r.patch(ctx, s, map[string]any{"spec": s.object["spec"]})
}

func (r round) patch(ctx context.Context, s fuzzStep, change map[string]any) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	object := fuzzStep{kind: s.kind, name: s.name}.toUnstructured(r.namespace)
	return cluster.API.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
}
