package kit_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

func readyConditionOf(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message}
}

// addReportingController gives WebApps a controller that reports: the port as URL, ready while the port is even.
func addReportingController(o *testOperator, name string, reconciles *atomic.Int64) {
	status := kit.NewStatus[*v1.WebApp](o.Operator, name)
	o.control(name, func(ctx context.Context, app *v1.WebApp) (kit.Result, error) {
		reconciles.Add(1)
		report := status.Report(app, &app.Status.Conditions)
		app.Status.URL = fmt.Sprintf("http://%s:%d", app.Name, app.Spec.Port)
		if app.Spec.Port%2 == 0 {
			report.Normal(readyConditionOf(metav1.ConditionTrue, "Even", app.Status.URL))
		} else {
			report.Warning(readyConditionOf(metav1.ConditionFalse, "Odd", app.Status.URL))
		}
		return kit.Done(), report.Write(ctx)
	})
}

func eventsOf(ctx context.Context, app client.Object, reason string) func(Gomega) []eventsv1.Event {
	return func(g Gomega) []eventsv1.Event {
		list := &eventsv1.EventList{}
		g.Expect(api.List(ctx, list, client.InNamespace(app.GetNamespace()))).To(Succeed())
		var result []eventsv1.Event
		for _, event := range list.Items {
			if event.Regarding.UID == app.GetUID() && event.Reason == reason {
				result = append(result, event)
			}
		}
		return result
	}
}

var _ = It("[K18/web-app] a status is rebuilt from the world when it is wiped, at once", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	addReportingController(o, "k18", &atomic.Int64{})
	o.start()
	app := webApp(ctx, o.namespace(), "app")
	Eventually(getObject(ctx, app)).Should(HaveField("Status.URL", "http://app:8080"))
	Eventually(func() error {
		getObject(ctx, app)(Default).Status = v1.WebAppStatus{}
		return api.Status().Update(ctx, app)
	}).Should(Succeed())
	Eventually(getObject(ctx, app)).Should(And(HaveField("Status.URL", "http://app:8080"), HaveField("Status.Conditions", HaveLen(1))))
})

var _ = It("a status is written once per change, and not at all without one", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	var reconciles atomic.Int64
	addReportingController(o, "k18-quiet", &reconciles)
	o.start()
	app := webApp(ctx, o.namespace(), "app")
	Eventually(getObject(ctx, app)).Should(HaveField("Status.URL", "http://app:8080"))
	first := *meta.FindStatusCondition(app.Status.Conditions, "Ready")
	Expect(first.ObservedGeneration).To(Equal(app.Generation))

	before := reconciles.Load()
	for i := range 5 {
		change(ctx, app, annotate("swarm.io/reconcile-at", fmt.Sprint(i)))
		Eventually(reconciles.Load).Should(BeNumerically(">", before+int64(i)))
	}
	version := app.ResourceVersion
	Consistently(getObject(ctx, app), 300*time.Millisecond).Should(HaveField("ResourceVersion", version), "nothing was written")

	change(ctx, app, func(app *v1.WebApp) { app.Spec.Port = 8082 })
	Eventually(getObject(ctx, app)).Should(HaveField("Status.URL", "http://app:8082"))
	second := *meta.FindStatusCondition(app.Status.Conditions, "Ready")
	Expect(second.ObservedGeneration).To(Equal(app.Generation))
	Expect(second.LastTransitionTime).To(Equal(first.LastTransitionTime), "the status of the condition did not change")
})

var _ = It("[K17] events tell what changed, with the reason of the condition, after the status was written", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	addReportingController(o, "k17", &atomic.Int64{})
	o.start()
	app := webApp(ctx, o.namespace(), "app")
	Eventually(eventsOf(ctx, app, "Even")).Should(ConsistOf(And(
		HaveField("Type", corev1.EventTypeNormal), HaveField("Note", "http://app:8080"), HaveField("ReportingController", "k17"))))
	change(ctx, app, func(app *v1.WebApp) { app.Spec.Port = 8081 })
	Eventually(eventsOf(ctx, app, "Odd")).Should(ConsistOf(HaveField("Type", corev1.EventTypeWarning)))
	Expect(meta.FindStatusCondition(getObject(ctx, app)(Default).Status.Conditions, "Ready").Reason).To(Equal("Odd"))
})

var _ = It("[K17] events that repeat are counted in one", func(ctx SpecContext) {
	o := operator([]string{createNamespace(ctx)})
	status := kit.NewStatus[*v1.WebApp](o.Operator, "k17-series")
	var times atomic.Int64
	o.control("k17-series", func(ctx context.Context, app *v1.WebApp) (kit.Result, error) {
		report := status.Report(app, &app.Status.Conditions)
		app.Status.ReadyReplicas++ // every time another resource version
		report.Event(corev1.EventTypeNormal, "Again", "and again")
		if err := report.Write(ctx); err != nil {
			return kit.Done(), err
		}
		if times.Add(1) < 20 {
			return kit.RequeueAfter(10*time.Millisecond, "Again"), nil
		}
		return kit.Done(), nil
	})
	o.start()
	app := webApp(ctx, o.namespace(), "app")
	Eventually(times.Load).Should(BeNumerically("==", 20))
	Eventually(eventsOf(ctx, app, "Again")).Should(ConsistOf(HaveField("Series.Count", BeNumerically(">=", 2))))
	Consistently(eventsOf(ctx, app, "Again"), 500*time.Millisecond).Should(HaveLen(1), "twenty of them, one object")
})
