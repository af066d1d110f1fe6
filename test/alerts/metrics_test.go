package alerts

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// foreignMetrics are the metrics that are not ours, with the labels that we choose by.
var foreignMetrics = map[string][]string{
	// Prometheus
	"up": {"job"},
	// client-go and controller-runtime
	"leader_election_master_status":                      {"name"},
	"controller_runtime_reconcile_total":                 {"job"},
	"controller_runtime_reconcile_errors_total":          {"job"},
	"controller_runtime_terminal_reconcile_errors_total": {"job"},
	// the API server
	"apiserver_admission_webhook_fail_open_count": {"name"},
	"apiserver_admission_webhook_rejection_count": {"name", "rejection_code"},
}

// A foreign metric that is renamed, or whose labels are, would leave an alert behind that never fires again. The operator's own metrics
// are compared with the alerts in test/integration/operator, on a running operator.
func TestForeignMetricsHaveTheirLabels(t *testing.T) {
	for _, rule := range alerts(t) {
		expression, err := words.ParseExpr(rule.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if selector, is := node.(*parser.VectorSelector); is && !strings.HasPrefix(selector.Name, "swarm_") {
				check(t, rule.Alert, selector)
			}
			return nil
		})
	}
}

func check(t *testing.T, alert string, selector *parser.VectorSelector) {
	allowed, foreign := foreignMetrics[selector.Name]
	if !foreign {
		t.Errorf("%s goes by %s, which is not known", alert, selector.Name)
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name != model.MetricNameLabel && !slices.Contains(allowed, matcher.Name) {
			t.Errorf("%s chooses %s by %s, which is not known of it", alert, selector.Name, matcher.Name)
		}
	}
}
