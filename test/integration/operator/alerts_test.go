package operator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
)

// selector finds the metrics that the operator itself exposes in an expression, with what they are chosen by.
var selector = regexp.MustCompile(`\b((?:swarm|controller_runtime|leader_election)_\w+)(?:\{([^}]*)\})?`)

// rare series appear with their first event. Specs of kit and of spread cause these events and read the series.
var rare = []string{"swarm_reconcile_panics_total", "swarm_placement_answers_total"}

// selected returns the selectors of all alerts: the name of a metric, then its matchers. The label job is of Prometheus's making.
func selected() [][]string {
	GinkgoHelper()
	text, err := os.ReadFile(fromRoot("deploy", "kustomize", "components", "monitoring", "rules.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var rules struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Expr string }
			}
		}
	}
	Expect(yaml.Unmarshal(text, &rules)).To(Succeed())
	var result [][]string
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			for _, found := range selector.FindAllStringSubmatch(rule.Expr, -1) {
				matchers := []string{found[1]}
				for matcher := range strings.SplitSeq(found[2], ",") {
					if matcher = strings.TrimSpace(matcher); matcher != "" && !strings.HasPrefix(matcher, "job=") {
						matchers = append(matchers, matcher)
					}
				}
				result = append(result, matchers)
			}
		}
	}
	return result
}

// exposed returns the series of a metric that have all of these labels.
func exposed(ctx context.Context, port, name string, labels []string) ([]string, error) {
	status, text, err := visit(ctx, metricsURL("http", port), "")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("scrape: %d %w", status, err)
	}
	var result []string
	for line := range strings.Lines(text) {
		named := strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ")
		if named && !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(line, label) }) {
			result = append(result, line)
		}
	}
	return result, nil
}

var _ = Describe("The metrics", Serial, func() {
	It("have every series that the alerts go by, under its name and with its labels", func(ctx SpecContext) {
		ns, port := namespace(ctx, nil), ports.Free()
		startOperator(append(webhookSettings(ns, ports.Free()), "SWARM_METRICS_ENABLED=true", "SWARM_METRICS_SECURE=false",
			"SWARM_METRICS_PORT="+port)...)
		all := selected()
		Expect(len(all)).To(BeNumerically(">", 10))
		for _, one := range all {
			if !slices.Contains(rare, one[0]) {
				Eventually(exposed).WithContext(ctx).WithArguments(port, one[0], one[1:]).ShouldNot(BeEmpty(), "%q", one)
			}
		}
	})
})
