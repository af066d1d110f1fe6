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

// eventLog is a recorder that keeps its events.
type eventLog struct {
	events  []string
	objects []*corev1.ObjectReference
	related []runtime.Object
}

//nolint:revive // the recorder's interface has that many arguments
func (l *eventLog) Eventf(regarding, related runtime.Object, kind, reason, _, note string, arguments ...any) {
	l.events = append(l.events, kind+" "+reason+" "+strings.TrimSpace(strings.Replace(note, "%s", arguments[0].(string), 1)))
	l.objects, l.related = append(l.objects, regarding.(*corev1.ObjectReference)), append(l.related, related)
}

//nolint:revive // the recorder's interface has that many arguments
func (l *eventLog) AnnotatedEventf(regarding, related runtime.Object, _ map[string]string, kind, reason, action, note string,
	arguments ...any) {
	l.Eventf(regarding, related, kind, reason, action, note, arguments...)
}

// statusHarness is a Service in a cluster, and the events about it. Services have conditions, and so does this test.
type statusHarness struct {
	*eventLog
	cluster client.Client
	status  *Status[*corev1.Service]
	service *corev1.Service
}

func newStatusHarness(t *testing.T, hooks interceptor.Funcs) *statusHarness {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a", UID: "uid-a", Generation: 4}}
	s := &statusHarness{eventLog: &eventLog{}, service: service}
	s.cluster = fake.NewClientBuilder().WithObjects(service).WithStatusSubresource(service).WithInterceptorFuncs(hooks).Build()
	s.status = &Status[*corev1.Service]{client: s.cluster, recorder: s.eventLog}
	s.refresh(t)
	return s
}

func (s *statusHarness) refresh(t *testing.T) *corev1.Service {
	t.Helper()
	s.service = &corev1.Service{}
	if err := s.cluster.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, s.service); err != nil {
		t.Fatal(err)
	}
	return s.service
}

func (s *statusHarness) report() *Report[*corev1.Service] {
	return s.status.Report(s.service, &s.service.Status.Conditions)
}

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message}
}

func TestEventIsSentOnceForEachStatusAndReason(t *testing.T) {
	s := newStatusHarness(t, interceptor.Funcs{})
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
		if sent := strings.Join(s.events, "; "); sent != c.told {
			t.Errorf("%s: told %q, want %q", c.condition.Message, sent, c.told)
		}
		stored := meta.FindStatusCondition(s.refresh(t).Status.Conditions, "Ready")
		if stored == nil || stored.Status != c.condition.Status || stored.Message != c.condition.Message || stored.ObservedGeneration != 4 {
			t.Errorf("stored %+v", stored)
		}
	}
}

func TestEventsNameTheirObject(t *testing.T) {
	s := newStatusHarness(t, interceptor.Funcs{})
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

func TestNoEventIsSentForAStatusThatWasNotWritten(t *testing.T) {
	for reason, c := range map[string]struct{ err, want error }{
		"refused": {errRefused, errRefused},
		"gone":    {apierrors.NewNotFound(corev1.Resource("services"), "a"), nil},
	} {
		t.Run(reason, func(t *testing.T) {
			s := newStatusHarness(t, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
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
	s := newStatusHarness(t, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
		...client.SubResourcePatchOption) error {
		return errRefused
	}})
	if err := s.report().Write(t.Context()); err != nil {
		t.Errorf("wrote: %v", err)
	}
}

// A reconcile based on the cache from before our own write must not count.
func TestReportIsRefusedUntilTheCacheHasHeardOfTheLastOne(t *testing.T) {
	s := newStatusHarness(t, interceptor.Funcs{})
	cached := s.service.DeepCopy()
	report := s.report()
	report.Condition(ready(metav1.ConditionTrue, "Started", ""))
	if err := report.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.status.Report(cached, &cached.Status.Conditions).Write(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	current := s.refresh(t)
	if err := s.status.Report(current, &current.Status.Conditions).Write(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestNoteOfTheLongestLengthStaysWhole(t *testing.T) {
	whole := strings.Repeat("a", maxNoteLength)
	if truncate(whole, maxNoteLength) != whole {
		t.Error("a note that fits was shortened")
	}
	if got := truncate(whole+"a", maxNoteLength); len(got) != maxNoteLength || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes", len(got))
	}
}

// What is kept in memory about objects must not grow forever, and what still matters must not be dropped.
func TestMessageOfAConditionIsBounded(t *testing.T) {
	s := newStatusHarness(t, interceptor.Funcs{})
	report := s.report()
	report.Condition(ready(metav1.ConditionFalse, "Refused", strings.Repeat("a", 40_000)))
	if err := report.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.refresh(t).Status.Conditions[0].Message; len(got) != maxMessageLength || !strings.HasSuffix(got, "...") {
		t.Errorf("stored %d bytes", len(got))
	}
}

func TestStaleReadGuardIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := &staleReadGuard{}, &statusThrottle[*corev1.Pod]{period: time.Minute,
			lastWrites: ExpiringMap[types.UID, time.Time]{MinTTL: time.Minute}}
		const every = time.Second
		for n := range 1_000 {
			time.Sleep(every)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(strconv.Itoa(n)), ResourceVersion: strconv.Itoa(n + 100)}}
			w.recordWrite(pod)
			p.recordWrite(pod.UID)
		}
		for _, c := range []struct{ got, most int }{
			{len(w.versions.newer) + len(w.versions.older), int(2 * maxCacheLag / every)},
			{len(p.lastWrites.newer) + len(p.lastWrites.older), int(2 * time.Minute / every)},
		} {
			if c.got < c.most/2 || c.got > c.most {
				t.Errorf("%d are remembered, want %d to %d", c.got, c.most/2, c.most)
			}
		}
	})
}
