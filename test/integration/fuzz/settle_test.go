package fuzz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

const (
	// resync is how often the operator reconciles everything again.
	resync = 5 * time.Second
	// quietPeriod is how long nothing may be written once the operator is idle: everything is reconciled twice in it.
	quietPeriod = 2*resync + 2*time.Second
	// settleTimeout is how long the operator may take to become idle.
	settleTimeout = 3 * time.Minute
	// maxRetries is how often one request may be refused within quietPeriod: the back-off begins at 10 ms and doubles.
	maxRetries = 12
	// maxReconciles is how often one object may be reconciled within quietPeriod: pools poll each second while they wait for
	// acknowledgements.
	maxReconciles = 30
)

// settleAndCheck waits until the operator is idle, checks the objects, and deletes the namespace.
func (r round) settleAndCheck(ctx context.Context) {
	GinkgoHelper()
	r.expectQuiet(ctx)
	r.expectConditions(ctx)
	r.operator.expectHealthy(ctx)
	began, made := time.Now(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	Expect(cluster.API.Delete(ctx, made)).To(Succeed())
	Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(cluster.API.Get(ctx, client.ObjectKeyFromObject(made), made))
	}).WithContext(ctx).WithTimeout(namespaceDeletionTimeout).Should(BeTrue(), func() string { return remaining(made) })
	AddReportEntry(r.namespace, ReportEntryVisibilityAlways, fmt.Sprintf("deleted in %.1f s", time.Since(began).Seconds()))
}

// remaining is the API server's message about a namespace that is being deleted.
func remaining(namespace *corev1.Namespace) string {
	var text []string
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			text = append(text, condition.Message)
		}
	}
	return strings.Join(text, "; ")
}

// expectQuiet waits until the operator writes nothing about the namespace any more and counts no errors, and checks that it then neither
// retries nor reconciles an object more often than its back-off and the resync allow.
func (r round) expectQuiet(ctx context.Context) {
	GinkgoHelper()
	began, lastError, failures := time.Now(), time.Now(), -1.0
	Eventually(func(g Gomega) {
		counted, err := series(ctx, r.operator.metrics, "controller_runtime_reconcile_errors_total")
		g.Expect(err).NotTo(HaveOccurred())
		if counted != failures {
			lastError, failures = time.Now(), counted
		}
		g.Expect(time.Since(lastError)).To(BeNumerically(">", quietPeriod), "%v reconciles have failed", failures)
		done := slices.DeleteFunc(r.writes(g, time.Now().Add(-quietPeriod)),
			func(write audit.Request) bool { return write.Response.Code >= http.StatusBadRequest })
		g.Expect(done).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(settleTimeout).WithPolling(time.Second).Should(Succeed())
	rest := time.Now().Add(-quietPeriod)
	refused := map[string]int{}
	for _, write := range r.writes(Default, rest) {
		refused[fmt.Sprint(write.Verb, " ", write.Object)]++
	}
	Expect(refused).To(Or(BeEmpty(), HaveEach(BeNumerically("<=", maxRetries))))
	Expect(r.operator.reconciles(rest)).To(HaveEach(BeNumerically("<=", maxReconciles)))
	AddReportEntry(r.namespace, ReportEntryVisibilityAlways, fmt.Sprintf("at rest after %.0f s", time.Since(began).Seconds()))
}

// reconciles returns how often each controller has reconciled each object since then.
func (o operator) reconciles(since time.Time) map[string]int {
	count := map[string]int{}
	for line := range bytes.Lines(o.session.Err.Contents()) {
		var entry struct {
			Time                             time.Time
			Msg, Controller, Namespace, Name string
		}
		if bytes.Contains(line, []byte(`"msg":"reconciled"`)) && json.Unmarshal(line, &entry) == nil && entry.Time.After(since) {
			count[entry.Controller+" "+entry.Namespace+"/"+entry.Name]++
		}
	}
	return count
}

// writes are the operator's writes in the namespace since then.
func (r round) writes(g Gomega, since time.Time) []audit.Request {
	all, err := audit.Requests("swarm-operator/")
	g.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(all, func(one audit.Request) bool {
		return !one.IsWrite() || one.Object.Namespace != r.namespace || one.Received.Before(since)
	})
}

// expectHealthy shows that the process is up, and that nothing in it has panicked.
func (o operator) expectHealthy(ctx context.Context) {
	GinkgoHelper()
	Expect(o.session.ExitCode()).To(Equal(-1), "the operator runs")
	Eventually(visit).WithContext(ctx).WithArguments("http://127.0.0.1:" + o.health + "/healthz").Should(Equal("ok"))
	for _, counter := range []string{"swarm_reconcile_panics_total", "controller_runtime_reconcile_panics_total",
		"controller_runtime_webhook_panics_total"} {
		Expect(series(ctx, o.metrics, counter)).To(BeZero(), counter)
	}
	said := string(o.session.Err.Contents())
	Expect(strings.Contains(said, "panic")).To(BeFalse(), "its log has no panic")
	Expect(strings.Contains(said, "DATA RACE")).To(BeFalse(), "nor a data race")
}

// series is the sum of a counter over its labels.
func series(ctx context.Context, port, name string) (float64, error) {
	text, err := visit(ctx, "http://127.0.0.1:"+port+"/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", line, err)
		}
		sum += value
	}
	return sum, nil
}

func visit(ctx context.Context, url string) (string, error) {
	status, text, err := testcluster.HTTPGet(ctx, url)
	if err == nil && status != http.StatusOK {
		err = errors.New(http.StatusText(status))
	}
	return text, err
}

// expectConditions checks every object. The operator reports nothing about paused ones, and nothing about snapshots: no controller has them
// yet.
func (r round) expectConditions(ctx context.Context) {
	GinkgoHelper()
	Eventually(r.missingConditions).WithContext(ctx).WithTimeout(quietPeriod).Should(BeEmpty())
}

func (r round) missingConditions(ctx context.Context) ([]string, error) {
	var missing []string
	for _, list := range []client.ObjectList{&v1alpha1.SwarmList{}, &v1alpha1.AgentList{}, &v1alpha1.WorkerPoolList{}, &v1alpha1.TaskList{}} {
		if err := cluster.API.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			object := item.(client.Object)
			if object.GetAnnotations()[v1alpha1.AnnotationPaused] == "true" || !object.GetDeletionTimestamp().IsZero() {
				continue
			}
			if why := missingCondition(object); why != "" {
				missing = append(missing, fmt.Sprintf("%T %s: %s", object, object.GetName(), why))
			}
		}
	}
	return missing, nil
}

// missingCondition returns what an object does not report, "" if nothing is missing.
func missingCondition(object client.Object) string {
	generation := object.GetGeneration()
	if task, isTask := object.(*v1alpha1.Task); isTask {
		if task.Status.Phase == "" || task.Status.Reason == "" {
			return fmt.Sprintf("its phase is %q for the reason %q", task.Status.Phase, task.Status.Reason)
		}
		if task.Status.Phase.Final() { // a change of a finished task changes nothing
			generation = task.Status.ObservedGeneration
		}
	}
	ready := meta.FindStatusCondition(conditionsOf(object), v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return "it has no condition Ready"
	case ready.ObservedGeneration != generation:
		return fmt.Sprintf("Ready is about generation %d of %d", ready.ObservedGeneration, generation)
	case ready.Status != metav1.ConditionTrue && (ready.Reason == "" || ready.Message == ""):
		return fmt.Sprintf("Ready is %s for the reason %q: %q", ready.Status, ready.Reason, ready.Message)
	}
	return ""
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.Swarm:
		return object.Status.Conditions
	case *v1alpha1.Agent:
		return object.Status.Conditions
	case *v1alpha1.WorkerPool:
		return object.Status.Conditions
	case *v1alpha1.Task:
		return object.Status.Conditions
	}
	return nil
}
