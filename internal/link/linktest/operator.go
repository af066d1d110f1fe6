package linktest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarm-io/swarm-operator/internal/limit"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// Tokens is an Authenticator: a token is "namespace/pod", and the pod's UID is "uid-of-pod". All others are denied.
type Tokens struct{}

// Authenticate implements link.Authenticator.
func (Tokens) Authenticate(_ context.Context, token string) (link.Identity, error) {
	namespace, pod, isPod := strings.Cut(token, "/")
	if !isPod {
		return link.Identity{}, fmt.Errorf("%w: %s", link.ErrDenied, token)
	}
	return link.Identity{Namespace: namespace, Pod: pod, PodUID: "uid-of-" + pod}, nil
}

// Terms proves terms to all operators in tests: the proof of a term is its number.
type Terms struct{}

// Prove implements link.Terms.
func (Terms) Prove(term int64) []byte { return strconv.AppendInt(nil, term, 10) }

// Proven implements link.Terms.
func (t Terms) Proven(term int64, proof []byte) bool { return bytes.Equal(proof, t.Prove(term)) }

// A Leader is a link.Leadership that a test can change.
type Leader struct {
	mu      sync.Mutex
	term    int64
	leading bool
	address string
}

// Lead makes this operator the leader of a term.
func (l *Leader) Lead(term int64) { l.set(term, true, "") }

// Follow makes another operator the leader.
func (l *Leader) Follow(address string) { l.set(0, false, address) }

func (l *Leader) set(term int64, leading bool, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.leading, l.address = term, leading, address
}

// Leading implements link.Leadership.
func (l *Leader) Leading() (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.leading
}

// Leader implements link.Leadership.
func (l *Leader) Leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}

// An Operator is a running server.
type Operator struct {
	*link.Server
	*Recorder
	Leader  *Leader
	CA      *CA
	Address string
	Metrics *prometheus.Registry
	Stop    func() // and wait for the end
}

// Start runs an operator that leads term 1, until the test ends. The configuration may be changed before it starts.
func Start(t testing.TB, ca *CA, options ...func(*link.Config)) *Operator {
	t.Helper()
	o := &Operator{Recorder: newRecorder(), Leader: &Leader{}, CA: ca, Metrics: prometheus.NewRegistry()}
	o.Leader.Lead(1)
	config := link.Config{
		Certificates: ca, Authenticator: Tokens{}, Leadership: o.Leader, Terms: Terms{}, Events: o.Recorder, Leases: o.Recorder, Ready: Ready(),
		Metrics: o.Metrics, Refusals: limit.NewRefusals(o.Metrics),
	}
	for _, apply := range options {
		apply(&config)
	}
	server, err := link.New(config)
	if err != nil {
		t.Fatal(err)
	}
	o.Server = server
	o.serve(t)
	return o
}

func (o *Operator) serve(t testing.TB) {
	t.Helper()
	listener := listenLocal(t)
	o.Address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.Serve(ctx, listener) }()
	o.Stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(o.Stop)
}

// Ready returns a closed channel, for a consumer that agents can join at once.
func Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// WithLease sets the lease.
func WithLease(length time.Duration) func(*link.Config) {
	return func(c *link.Config) { c.Events.(*Recorder).LeaseDuration = length }
}

// ClientTLS returns what a client of this operator trusts.
func (o *Operator) ClientTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: o.CA.Pool, ServerName: ServerName, NextProtos: []string{"h2"}}
}

// MetricSum sums a metric over all series that have the label value, or over all series if it is "".
func (o *Operator) MetricSum(t testing.TB, name, label string) int {
	t.Helper()
	families, err := o.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			if label == "" || strings.Contains(fmt.Sprint(series.GetLabel()), `"`+label+`"`) {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return int(sum)
}
