package kit_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/swarm-io/swarm-operator/kit"

	v1 "github.com/swarm-io/swarm-operator/examples/webapp/v1"
)

// A testOperator is an operator inside the test process.
type testOperator struct {
	*kit.Operator
	first string
	log   *journal
	done  chan error
	stop  context.CancelFunc
}

// operator returns an operator that sees only the given namespaces, takes its Lease at once, and logs everything.
func operator(namespaces []string, configure ...func(*kit.Options, *rest.Config)) *testOperator {
	GinkgoHelper()
	o := &testOperator{first: namespaces[0], log: newJournal(), done: make(chan error, 1)}
	options := kit.Options{Election: kit.Election{Namespace: namespaces[0], Name: "kit", Identity: "inside", Forced: true}}
	options.Manager.Scheme = scheme
	options.Manager.Metrics = server.Options{BindAddress: "0"}
	options.Manager.Logger = logr.FromSlogHandler(slog.NewJSONHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options.Manager.Controller.SkipNameValidation = new(true)
	options.Manager.Cache.DefaultNamespaces = map[string]cache.Config{}
	for _, namespace := range namespaces {
		options.Manager.Cache.DefaultNamespaces[namespace] = cache.Config{}
	}
	config := rest.CopyConfig(apiServer)
	for _, change := range configure {
		change(&options, config)
	}
	var err error
	o.Operator, err = kit.NewOperator(config, options)
	Expect(err).NotTo(HaveOccurred())
	return o
}

// namespace is the first one that it sees.
func (o *testOperator) namespace() string { return o.first }

// start starts the operator for the rest of the spec.
func (o *testOperator) start() {
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() {
		o.done <- o.Start(ctx)
		close(o.done)
	}()
	DeferCleanup(o.shutDown)
}

// startLeading starts the operator, and waits until it leads.
func (o *testOperator) startLeading() *testOperator {
	GinkgoHelper()
	o.start()
	Eventually(o.Leadership.Fresh).Should(BeTrue())
	return o
}

func (o *testOperator) shutDown() {
	o.stop()
	Eventually(o.done).Should(Or(Receive(), BeClosed()))
}

// control adds a controller for WebApps that is one function.
func (o *testOperator) control(name string, reconcile func(context.Context, *v1.WebApp) (kit.Result, error),
	adjust ...func(*kit.Builder[*v1.WebApp])) {
	GinkgoHelper()
	builder := kit.New[*v1.WebApp](o.Operator, name)
	for _, change := range adjust {
		change(builder)
	}
	Expect(builder.Build(kit.Func[*v1.WebApp](reconcile))).To(Succeed())
}

// A journal is a log that can be read while it is written.
type journal struct{ buffer *gbytes.Buffer }

func newJournal() *journal { return &journal{gbytes.NewBuffer()} }

func (j *journal) Write(text []byte) (int, error) { return j.buffer.Write(text) }

func (j *journal) String() string { return string(j.buffer.Contents()) }

// lines are the lines that contain all of the words.
func (j *journal) lines(words ...string) []string {
	var lines []string
	for line := range strings.Lines(j.String()) {
		if containsAll(line, words...) {
			lines = append(lines, line)
		}
	}
	return lines
}

// sumMetric adds up a metric over all series that have these labels, given as name=value.
func sumMetric(name string, labels ...string) float64 {
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			matches := map[string]bool{}
			for _, label := range series.GetLabel() {
				matches[fmt.Sprintf("%s=%s", label.GetName(), label.GetValue())] = true
			}
			all := true
			for _, label := range labels {
				all = all && matches[label]
			}
			if all {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
