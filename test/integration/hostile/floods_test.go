package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
)

// What the floods have done.
var connectionsOpened, tokensRefused, tasksCreated, large, annotated, statusesPatched atomic.Int64

// floodAddress is the source address of connection floods: they must not block the other attacks.
const floodAddress = "127.0.0.3"

// floodPace is the pause between two actions of a flood. The machine also has to run the programs of the flood, and their cost is not
// measured.
const floodPace = 10 * time.Millisecond

// connections opens connections that send nothing, garbage, or nothing after the handshake, and streams with bad tokens.
var connections = attackSpec{func(ctx context.Context, s *environment) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { floodOfConnections(ctx, s) })
	for _, pod := range s.pods() {
		all.Go(func() {
			repeat(ctx, 10*floodPace, func(n int) { pod.connectWithBadToken(ctx, n) })
		})
	}
}, []attackMetric{{"connections that were opened", &connectionsOpened, 300},
	{"streams with a bad token that were refused", &tokensRefused, 100}}}

// floodOfConnections opens connections only.
func floodOfConnections(ctx context.Context, s *environment) {
	openConnections(ctx, "127.0.0.1:"+s.leader.link)
}

// openConnections keeps each connection open until the context ends.
func openConnections(ctx context.Context, address string) {
	raw := (&rawlink.Agent{SourceAddress: floodAddress}).Dialer()
	secure := &tls.Dialer{NetDialer: raw, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	repeat(ctx, 2*floodPace, func(n int) {
		if n%3 == 0 {
			if opened, err := secure.DialContext(ctx, "tcp", address); err == nil {
				connectionsOpened.Add(1)
				context.AfterFunc(ctx, func() { _ = opened.Close() })
			}
			return
		}
		opened, err := raw.DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		connectionsOpened.Add(1)
		context.AfterFunc(ctx, func() { _ = opened.Close() })
		if n%3 == 1 {
			_ = opened.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = opened.Write(bytes.Repeat([]byte(intruder), 1000))
		}
	})
}

// connectWithBadToken opens a stream with an invalid token, a token for another audience, or a modified one.
func (p *intruderPod) connectWithBadToken(ctx context.Context, n int) {
	good, err := p.Token()
	if err != nil {
		return
	}
	bad := []string{fmt.Sprint(intruder, n), good[:len(good)-n%100-10], fmt.Sprintf("e30.%x.%d", intruder, n),
		strings.Repeat("x", 7<<10) + fmt.Sprint(n), ""}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	stream, err := p.ConnectWithToken(ctx, bad[n%len(bad)])
	if err != nil {
		return
	}
	defer stream.Close()
	_ = stream.Send(helloMessage(p.Hello()))
	if _, err := stream.Recv(); err != nil {
		tokensRefused.Add(1)
	}
}

// objects creates tasks and large ConfigMaps in the hostile namespace, and writes numbers into annotations and statuses there.
var objects = attackSpec{func(ctx context.Context, s *environment) {
	var all sync.WaitGroup
	defer all.Wait()
	for worker := range 2 {
		all.Go(func() {
			repeat(ctx, floodPace, func(int) { s.createTask(ctx, worker) })
		})
	}
	all.Go(func() {
		repeat(ctx, 40*floodPace, func(int) { s.createLarge(ctx) })
	})
	all.Go(func() {
		repeat(ctx, 5*floodPace, func(n int) { s.annotate(ctx, n) }, func(n int) { s.patchStatus(ctx, n) })
	})
}, []attackMetric{
	{"tasks of the tenant", &tasksCreated, 1000}, {"large ConfigMaps of the tenant", &large, 20},
	{"annotations that were written", &annotated, 20}, {"statuses that were written", &statusesPatched, 20},
}}

// numbersWritten are written where the operator keeps numbers of its own.
var numbersWritten = []int64{0, 1, -1, math.MaxInt32, math.MaxInt32 + 1, 1<<62 - 1, 6917529027641081855, math.MaxInt64, math.MinInt64}

// tasksNamed counts the tasks that each worker has named.
var tasksNamed [2]atomic.Int64

// createTask creates a task that waits, or that is handed back.
func (s *environment) createTask(ctx context.Context, worker int) {
	task := newTask(s.tenantSwarm, fmt.Sprintf("flood-%d-%d-%d", s.rounds, worker, tasksNamed[worker].Add(1)),
		`{"text":"`+strings.Repeat("x", 1000)+`"}`)
	if s.tenant.Create(ctx, task) == nil {
		tasksCreated.Add(1)
	}
}

// createLarge creates a ConfigMap of almost a megabyte.
func (s *environment) createLarge(ctx context.Context) {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, GenerateName: "large-"},
		Data:       map[string]string{"text": strings.Repeat("x", 900<<10)},
	}
	if s.tenant.Create(ctx, config) == nil {
		large.Add(1)
	}
}

// annotate changes the numbers that leaders keep in the ConfigMap of a pool.
func (s *environment) annotate(ctx context.Context, n int) {
	value := fmt.Sprint(pickNth(numbersWritten, n))
	if n%10 == 8 {
		value = strings.Repeat("9", 1000)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,%q:%q}}}`, v1alpha1.AnnotationFence, value, v1alpha1.AnnotationTerm, value)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: poolConfig}}
	if s.tenant.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch)) == nil {
		annotated.Add(1)
	}
}

// patchStatus writes numbers into the statuses of the tenant's own objects. The API server refuses some of them.
func (s *environment) patchStatus(ctx context.Context, n int) {
	meta := metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: fmt.Sprintf("flood-%d-0-%d", s.rounds, n/2)}
	number := pickNth(numbersWritten, n/4)
	patches := []struct {
		object client.Object
		status string
	}{
		{&v1alpha1.Task{ObjectMeta: meta}, `{"epoch":%d}`},
		{&v1alpha1.Task{ObjectMeta: meta}, `{"phase":"Running","attempt":1,"epoch":%d}`},
		{&v1alpha1.Swarm{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: intruder}}, `{"epoch":%d}`},
		{&v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: intruder + "-worker-0"}}, `{"leaseSeconds":%d}`},
		{&v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenantNamespace, Name: "pool"}},
			`{"version":%d,"observedGeneration":%[1]d}`},
	}
	one := pickNth(patches, n)
	patch := fmt.Appendf(nil, `{"status":`+one.status+`}`, number)
	if s.tenant.Status().Patch(ctx, one.object, client.RawPatch(types.MergePatchType, patch)) == nil {
		statusesPatched.Add(1)
	}
}

func pickNth[T any](from []T, n int) T { return from[n%len(from)] }
