package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/internal/webhook/spread"
)

const (
	// admissionTime is the operator's own histogram of its answers.
	admissionTime = "swarm_webhook_request_duration_seconds"
	// admissionTestDuration is how long the webhook is called at each rate.
	admissionTestDuration = 10 * time.Second
	// maxInFlight is how many requests may be in flight.
	maxInFlight = 100
)

// measureAdmission calls the webhook as the API server does, at two rates. Times count from the moment a request was due, so that
// one slow answer does not hide the delay of the requests behind it.
func (b *bench) measureAdmission(ctx context.Context) error {
	bundle, err := b.cluster.trustedCAs(ctx)
	if err != nil {
		return err
	}
	asker := newWebhookCaller(bundle)
	if _, err := asker.callAtRate(ctx, 10, time.Second); err != nil { // opens the connections
		return err
	}
	for _, pace := range []struct {
		rate   int
		target float64
	}{{100, 20}, {500, 50}} {
		before, err := b.operator.read(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		took, err := b.callAndReportCost(ctx, asker, pace.rate)
		if err != nil {
			return err
		}
		if err := b.reportServerLatency(ctx, pace.rate, pace.target, before); err != nil {
			return err
		}
		b.report.Time(fmt.Sprintf("the same as seen by who asks, p50 %.1f ms, p99", milliseconds(percentile(took, 50))),
			milliseconds(percentile(took, 99)), pace.target, "ms")
		asked, err := b.countRequests(start)
		if err != nil {
			return err
		}
		b.report.Count(fmt.Sprintf("reads and writes of the operator for %d admissions", len(took)), float64(asked), 0, "calls")
	}
	return nil
}

// reportServerLatency returns what the operator's histogram has counted since a reading.
func (b *bench) reportServerLatency(ctx context.Context, rate int, target float64, before metricsSnapshot) error {
	after, err := b.operator.read(ctx)
	if err != nil {
		return err
	}
	placed := `outcome="placed"`
	took, count := quantileBound(before.buckets(admissionTime), after.buckets(admissionTime), .99)
	if good := int(after.sum(admissionTime+"_count", placed) - before.sum(admissionTime+"_count", placed)); good != count {
		return fmt.Errorf("only %d of %d pods were given a place", good, count)
	}
	b.report.Time(fmt.Sprintf("[R13/latency] admission, %d/s, p99 by the operator's own measure (bound of its bucket)", rate),
		milliseconds(took), target, "ms")
	return nil
}

// callAndReportCost calls the webhook for a while, and reports what that cost the operator.
func (b *bench) callAndReportCost(ctx context.Context, asker webhookCaller, rate int) ([]time.Duration, error) {
	before, err := b.operator.cpuTime()
	if err != nil {
		return nil, err
	}
	took, err := asker.callAtRate(ctx, rate, admissionTestDuration)
	if err != nil {
		return nil, err
	}
	after, err := b.operator.cpuTime()
	fmt.Printf("  %d admissions, %s of work each; load of the machine %s\n", len(took),
		((after - before) / time.Duration(len(took))).Round(time.Microsecond), load())
	return took, err
}

// A webhookCaller calls the webhook.
type webhookCaller struct{ client *http.Client }

func newWebhookCaller(bundle []byte) webhookCaller {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(bundle)
	return webhookCaller{&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: maxInFlight,
	}}}
}

// callAtRate sends so many requests per second, and returns how long the answers took, shortest first.
func (a webhookCaller) callAtRate(ctx context.Context, rate int, length time.Duration) ([]time.Duration, error) {
	count := int(length.Seconds()) * rate
	took, errs := make([]time.Duration, count), make([]error, count)
	var calls errgroup.Group
	calls.SetLimit(maxInFlight)
	begun := time.Now()
	for n := range count {
		due := begun.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		calls.Go(func() error {
			errs[n] = a.call(ctx, n)
			took[n] = time.Since(due)
			return nil // all requests are sent, whatever happens to one
		})
	}
	_ = calls.Wait()
	slices.Sort(took)
	return took, errors.Join(errs...)
}

// call sends a review of a pod that is never created.
func (a webhookCaller) call(ctx context.Context, n int) error {
	body, err := review(n)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1:"+webhookPort+spread.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the webhook: %w", err)
	}
	defer response.Body.Close()
	answer := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("read the webhook's answer: %w", err)
	}
	if answer.Response == nil || len(answer.Response.Patch) == 0 {
		return fmt.Errorf("pod %d was given no place: %v", n, answer.Response)
	}
	return nil
}

// review is the request about the nth pod: each belongs to another workload than the one before, and has to be placed among
// that workload's pods. For Deployments it is the first pod of a new template, since all pods of the current one exist.
func review(n int) ([]byte, error) {
	workload, hash := n%spreadWorkloads, "next"
	template := spreadTemplate(workload)
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: spreadName(workload) + "-" + hash, UID: "owner",
		Controller: new(true)}
	pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey], pod.GenerateName = hash, owner.Name+"-"
	if workload%10 == 9 {
		owner.Kind, owner.Name = "StatefulSet", spreadName(workload)
		pod.Name = fmt.Sprintf("%s-%d", owner.Name, n%spreadReplicas)
	}
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	encoded, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(fmt.Sprintf("%d-%d", time.Now().UnixNano(), n)), Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: space, Name: pod.Name,
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: encoded}, DryRun: new(true),
		},
	})
}
