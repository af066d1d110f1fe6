package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/agent"
	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
	"github.com/swarm-io/swarm-operator/internal/testkit/audit"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
	"github.com/swarm-io/swarm-operator/internal/webhook/spread"
	"github.com/swarm-io/swarm-operator/test/bench/report"
)

const (
	posted           = 200
	postedBytes      = 7 << 20
	handBackSwarm    = "reluctant" // the swarm whose agent hands every attempt back
	handBackDuration = time.Minute
	loudTimes        = 50               // the other tenant submits this many times as many tasks
	tenantTime       = 30 * time.Second // of each measurement
)

// posts measures what forged posts to the webhook cost, half of them without a length.
func (b *bench) posts(ctx context.Context) error {
	b.operator.stop()
	if err := b.cluster.registerWebhook(ctx); err != nil {
		return err
	}
	var err error
	if b.operator, err = b.cluster.startOperator(ctx, webhookSettings...); err != nil {
		return err
	}
	if err := b.operator.awaitLeading(ctx); err != nil {
		return err
	}
	if err := b.cluster.workload(ctx, 0); err != nil {
		return err
	}
	poster := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: creators,
	}}
	memory, err := b.peakMemory(ctx, func(ctx context.Context) error {
		return forEach(ctx, posted, func(ctx context.Context, n int) error { return post(ctx, poster, n) })
	})
	b.reportLeader(fmt.Sprintf("%d posts of %d MiB to the webhook", posted, postedBytes>>20), memory, err == nil)
	return err
}

// post sends a large admission review, which may be refused, or its connection closed.
func post(ctx context.Context, httpClient *http.Client, n int) error {
	body, err := largeReview(n)
	if err != nil {
		return err
	}
	var from io.Reader = bytes.NewReader(body)
	if n%2 == 0 {
		from = io.MultiReader(from) // which has no length
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1:"+webhookPort+spread.Path, from)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if response, err := httpClient.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return ctx.Err()
}

// largeReview returns a review whose UID is as large as the whole.
func largeReview(n int) ([]byte, error) {
	body, err := review(0)
	if err != nil {
		return nil, err
	}
	reviewObject := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, reviewObject); err != nil {
		return nil, err
	}
	reviewObject.Request.UID, reviewObject.Request.DryRun = types.UID(fmt.Sprint(n, strings.Repeat("u", postedBytes))), nil
	return json.Marshal(reviewObject)
}

// runAgent is a pod's agent: a normal one, or one that hands every attempt back at once.
func runAgent(ctx context.Context, _ *corev1.Pod, config agent.Config) error {
	if config.Swarm != handBackSwarm {
		return agent.RunWith(ctx, config, agent.HandlerFunc(work))
	}
	program := &rawlink.Agent{Config: config}
	for pause(ctx, time.Second) == nil { // before each connection: the operator may refuse it
		if _, err := program.AcceptAndHandBack(ctx, "not now", linkv1.Outcome_OUTCOME_HANDED_BACK); err != nil {
			fmt.Println("hand back:", err)
		}
	}
	return nil
}

// handBacks measures what an agent costs that hands every attempt back at once: with a task for each of its slots, and with a queue.
func (b *bench) handBacks(ctx context.Context) error {
	const slots = 8
	if err := b.cluster.swarm(ctx, handBackSwarm, 1, slots); err != nil {
		return err
	}
	if err := b.cluster.awaitSwarmsReady(ctx); err != nil {
		return err
	}
	for _, tasks := range []int{slots, 100} {
		since := time.Now()
		if err := b.cluster.submit(ctx, fmt.Sprintf("back%d", tasks), handBackSwarm, tasks); err != nil {
			return err
		}
		if err := pause(ctx, handBackDuration); err != nil {
			return err
		}
		written, err := b.cluster.writes(since)
		if err != nil {
			return err
		}
		about := slices.DeleteFunc(written, func(one audit.Request) bool { return one.Object.Resource != "tasks" && one.Object.Resource != "events" })
		if len(about) == 0 {
			return fmt.Errorf("no attempt of %d tasks was handed back", tasks)
		}
		b.reportHandBacks(tasks, slots, len(about))
	}
	return nil
}

// reportHandBacks reports the writes in the measured time.
func (b *bench) reportHandBacks(tasks, slots, writes int) {
	what := fmt.Sprintf("writes for an agent that hands back %d tasks at once, %d slots", tasks, slots)
	b.report.Count(what, float64(writes)/handBackDuration.Seconds(), maxHandBackWrites, "1/s")
}

// tenantPaces are the times between two tasks of the quiet tenant. At the first one, the other tenant submits more than two processors
// with an API server on them can complete.
var tenantPaces = []time.Duration{200 * time.Millisecond, 500 * time.Millisecond}

// tenants compares the latency of a tenant next to another one that submits many times as much with its latency alone.
func (b *bench) tenants(ctx context.Context) error {
	const loud = "swarm-bench-loud"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loud}}
	if err := client.IgnoreAlreadyExists(b.cluster.api.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("create namespace %q: %w", loud, err)
	}
	for _, ns := range []string{space, loud} {
		if err := b.cluster.swarmIn(ctx, ns, "tenant", 10, 4); err != nil {
			return err
		}
	}
	if err := b.cluster.readyIn(ctx, space); err != nil {
		return err
	}
	if err := b.cluster.readyIn(ctx, loud); err != nil {
		return err
	}
	for _, pace := range tenantPaces {
		if err := b.tenantsAtPace(ctx, loud, pace); err != nil {
			return err
		}
	}
	return b.cluster.api.Delete(ctx, namespace)
}

// tenantsAtPace measures the quiet tenant alone, and then beside the loud one.
func (b *bench) tenantsAtPace(ctx context.Context, loud string, pace time.Duration) error {
	count, suffix := int(tenantTime/pace), fmt.Sprint(pace.Milliseconds())
	alone, err := b.startLatencies(ctx, space, "alone"+suffix, count, pace)
	if err != nil {
		return err
	}
	var others sync.WaitGroup
	var failed error
	others.Go(func() { _, failed = b.startLatencies(ctx, loud, "loud"+suffix, count*loudTimes, pace/loudTimes) })
	beside, err := b.startLatencies(ctx, space, "beside"+suffix, count, pace)
	others.Wait()
	if err != nil {
		return err
	}
	if failed != nil {
		fmt.Printf("the other tenant could not submit as much as it wanted: %v\n", failed)
	}
	rate := time.Second / pace
	rates := fmt.Sprintf("of a tenant with %d tasks/s beside one with %d tasks/s, p99", rate, rate*loudTimes)
	b.reportTenants("create to start "+rates, alone.toStart, beside.toStart)
	b.reportTenants("create to the API server's answer "+rates, alone.toAnswer, beside.toAnswer)
	return nil
}

// reportTenants compares the times of a tenant beside another one with those of the tenant alone.
func (b *bench) reportTenants(measure string, alone, beside []time.Duration) {
	quiet := milliseconds(percentile(alone, 99))
	b.report.Add(report.Line{
		Measure: measure, Ours: milliseconds(percentile(beside, 99)), Target: 2 * quiet, Unit: "ms",
		Peer: &report.Peer{Name: "alone", Value: quiet},
	})
}

// startTimings are the times from the creation of tasks, each sorted.
type startTimings struct {
	toAnswer []time.Duration // until the API server has answered: the operator has no part in it
	toStart  []time.Duration // until an agent has begun
}

// startLatencies creates tasks of 10 ms at a pace, and waits until all of them have started.
func (b *bench) startLatencies(ctx context.Context, ns, name string, count int, pace time.Duration) (startTimings, error) {
	limited, cancel := context.WithTimeout(ctx, tenantTime+rowLimit/2)
	defer cancel()
	createdAt, began := make([]time.Time, count), time.Now()
	took := startTimings{toAnswer: make([]time.Duration, count), toStart: make([]time.Duration, count)}
	err := forEach(limited, count, func(ctx context.Context, n int) error {
		if err := pause(ctx, time.Until(began.Add(time.Duration(n)*pace))); err != nil {
			return err
		}
		createdAt[n] = time.Now()
		err := b.cluster.taskIn(ctx, ns, fmt.Sprintf("%s-%05d", name, n), "tenant", 10*time.Millisecond)
		took.toAnswer[n] = time.Since(createdAt[n])
		return err
	})
	if err != nil {
		return took, fmt.Errorf("create tasks %q: %w", name, err)
	}
	for n := range count {
		started, err := awaitStart(limited, fmt.Sprintf("%s-%05d", name, n))
		if err != nil {
			return took, err
		}
		took.toStart[n] = started.Sub(createdAt[n])
	}
	slices.Sort(took.toAnswer)
	slices.Sort(took.toStart)
	return took, nil
}

// awaitStart waits until an agent has begun a task.
func awaitStart(ctx context.Context, task string) (time.Time, error) {
	for {
		if started, known := startTimes.Load(task); known {
			return started.(time.Time), nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return time.Time{}, fmt.Errorf("wait for the start of task %q: %w", task, err)
		}
	}
}
