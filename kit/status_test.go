package kit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// ledger is a recorder that keeps its events.
type ledger struct {
	events  []string
	objects []*corev1.ObjectReference
	related []runtime.Object
}

//nolint:revive // the recorder's interface has that many arguments
func (l *ledger) Eventf(regarding, related runtime.Object, kind, reason, _, note string, arguments ...any) {
	l.events = append(l.events, kind+" "+reason+" "+strings.TrimSpace(strings.Replace(note, "%s", arguments[0].(string), 1)))
	l.objects, l.related = append(l.objects, regarding.(*corev1.ObjectReference)), append(l.related, related)
}

//nolint:revive // the recorder's interface has that many arguments
func (l *ledger) AnnotatedEventf(regarding, related runtime.Object, _ map[string]string, kind, reason, action, note string, arguments ...any) {
	l.Eventf(regarding, related, kind, reason, action, note, arguments...)
}

// stage is a Service in a cluster, and the events about it. Services have conditions, and so does this test.
type stage struct {
	*ledger
	cluster client.Client
	status  *Status[*corev1.Service]
	service *corev1.Service
}

func staged(t *testing.T, hooks interceptor.Funcs) *stage {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a", UID: "uid-a", Generation: 4}}
	s := &stage{ledger: &ledger{}, service: service}
	s.cluster = fake.NewClientBuilder().WithObjects(service).WithStatusSubresource(service).WithInterceptorFuncs(hooks).Build()
	s.status = &Status[*corev1.Service]{client: s.cluster, recorder: s.ledger}
	s.reads(t)
	return s
}

func (s *stage) reads(t *testing.T) *corev1.Service {
	t.Helper()
	s.service = &corev1.Service{}
	if err := s.cluster.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, s.service); err != nil {
		t.Fatal(err)
	}
	return s.service
}

func (s *stage) report() *Report[*corev1.Service] {
	return s.status.Report(s.service, &s.service.Status.Conditions)
}

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message}
}

func TestConditionIsToldOnceForEachStatusAndReason(t *testing.T) {
	s := staged(t, interceptor.Funcs{})
	for _, c := range []struct {
		condition metav1.Condition
		warns     bool
		told      string
	}{
		{ready(metav1.ConditionFalse, "Starting", "one"), false, "Normal Starting one"},
		{ready(metav1.ConditionFalse, "Starting", "two"), false, ""},
		{ready(metav1.ConditionFalse, "Crashing", "three"), true, "Warning Crashing three"},
		{ready(metav1.ConditionTrue, "Crashing", "four"), false, "Normal Crashing four"},
	} {
		report := s.report()
		if c.warns {
			report.Warning(c.condition)
		} else {
			report.Normal(c.condition)
		}
		s.events = nil
		if err := report.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if told := strings.Join(s.events, "; "); told != c.told {
			t.Errorf("%s: told %q, want %q", c.condition.Message, told, c.told)
		}
		stored := meta.FindStatusCondition(s.reads(t).Status.Conditions, "Ready")
		if stored == nil || stored.Status != c.condition.Status || stored.Message != c.condition.Message || stored.ObservedGeneration != 4 {
			t.Errorf("stored %+v", stored)
		}
	}
}

func TestEventsNameTheirObject(t *testing.T) {
	s := staged(t, interceptor.Funcs{})
	report := s.report()
	report.Event(corev1.EventTypeNormal, "Moved", "gone north")
	report.EventAbout(&corev1.ObjectReference{Kind: "Pod", Name: "b"}, corev1.EventTypeWarning, "Evicted", "b")
	for range 2 { // a report is sent once
		if err := report.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.events, []string{"Normal Moved gone north", "Warning Evicted b"}) {
		t.Errorf("told %q", s.events)
	}
	want := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "demo", Name: "a", UID: "uid-a"}
	if *s.objects[0] != want || s.related[0] != nil || s.related[1].(*corev1.ObjectReference).Name != "b" {
		t.Errorf("about %+v, related %v", s.objects[0], s.related)
	}
}

func TestNothingIsToldOfWhatWasNotWritten(t *testing.T) {
	for reason, c := range map[string]struct{ err, want error }{
		"refused": {errRefused, errRefused},
		"gone":    {apierrors.NewNotFound(corev1.Resource("services"), "a"), nil},
	} {
		t.Run(reason, func(t *testing.T) {
			s := staged(t, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
				...client.SubResourcePatchOption) error {
				return c.err
			}})
			report := s.report()
			report.Normal(ready(metav1.ConditionTrue, "Started", ""))
			if err := report.Write(t.Context()); !errors.Is(err, c.want) || len(s.events) > 0 {
				t.Errorf("got %v, told %q", err, s.events)
			}
		})
	}
}

func TestReportThatChangesNothingWritesNothing(t *testing.T) {
	s := staged(t, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
		...client.SubResourcePatchOption) error {
		return errRefused
	}})
	if err := s.report().Write(t.Context()); err != nil {
		t.Errorf("wrote: %v", err)
	}
}

// A reconcile that starts from the cache as it was before our own write must not be believed.
func TestReportIsRefusedUntilTheCacheHasHeardOfTheLastOne(t *testing.T) {
	s := staged(t, interceptor.Funcs{})
	cached := s.service.DeepCopy()
	report := s.report()
	report.Condition(ready(metav1.ConditionTrue, "Started", ""))
	if err := report.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.status.Report(cached, &cached.Status.Conditions).Write(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	current := s.reads(t)
	if err := s.status.Report(current, &current.Status.Conditions).Write(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestNoteOfTheLongestLengthStaysWhole(t *testing.T) {
	whole := strings.Repeat("a", mostNote)
	if shortened(whole, mostNote) != whole {
		t.Error("a note that fits was shortened")
	}
	if got := shortened(whole+"a", mostNote); len(got) != mostNote || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes", len(got))
	}
}

// What is kept in memory about objects must not grow for ever, and what still matters must not be dropped.
func TestMessageOfAConditionIsBounded(t *testing.T) {
	s := staged(t, interceptor.Funcs{})
	report := s.report()
	report.Condition(ready(metav1.ConditionFalse, "Refused", strings.Repeat("a", 40_000)))
	if err := report.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.reads(t).Status.Conditions[0].Message; len(got) != mostMessage || !strings.HasSuffix(got, "...") {
		t.Errorf("stored %d bytes", len(got))
	}
}

func TestMemoryOfWritesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := &written{}, &patience[*corev1.Pod]{period: time.Minute, wrote: Recent[types.UID, time.Time]{Keep: time.Minute}}
		const every = time.Second
		for n := range 1_000 {
			time.Sleep(every)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.Itoa(n)), ResourceVersion: strconv.Itoa(n + 100)}}
			w.note(pod)
			p.note(pod.UID)
		}
		for _, c := range []struct{ got, most int }{
			{len(w.last.newer) + len(w.last.older), int(2 * caughtUp / every)}, {len(p.wrote.newer) + len(p.wrote.older), int(2 * time.Minute / every)},
		} {
			if c.got < c.most/2 || c.got > c.most {
				t.Errorf("%d are remembered, want %d to %d", c.got, c.most/2, c.most)
			}
		}
	})
}
