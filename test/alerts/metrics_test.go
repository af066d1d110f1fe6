package alerts

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// others are the metrics that are not ours, with the labels that we choose by.
var others = map[string][]string{
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

// A metric that is renamed, or whose labels are, would leave an alert behind that never fires again.
func TestEveryMetricOfTheAlertsExists(t *testing.T) {
	ours := literals(t)
	for _, rule := range alerts(t) {
		expression, err := words.ParseExpr(rule.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if selector, is := node.(*parser.VectorSelector); is {
				check(t, rule.Alert, selector, ours)
			}
			return nil
		})
	}
}

func check(t *testing.T, alert string, selector *parser.VectorSelector, ours map[string]bool) {
	known, foreign := others[selector.Name]
	if !foreign && !ours[histogram.ReplaceAllString(selector.Name, "")] && !ours[selector.Name] {
		t.Errorf("%s goes by %s, which nobody has", alert, selector.Name)
	}
	for _, matcher := range selector.LabelMatchers {
		switch {
		case matcher.Name == model.MetricNameLabel:
		case foreign && !slices.Contains(known, matcher.Name):
			t.Errorf("%s chooses %s by %s, which is not known of it", alert, selector.Name, matcher.Name)
		case !foreign && (!ours[matcher.Name] || !ours[matcher.Value]):
			t.Errorf("%s chooses %s by %s, which our sources do not say", alert, selector.Name, matcher)
		}
	}
}

var (
	histogram = regexp.MustCompile(`_(bucket|count|sum)$`)
	literal   = regexp.MustCompile(`"([A-Za-z_]+)"`)
)

// literals are the words in quotes in the sources of the operator, among them the names of metrics, their labels and the values of those.
func literals(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, folder := range []string{"kit", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range literal.FindAllSubmatch(content, -1) {
				found[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
