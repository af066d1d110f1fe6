package alerts

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

var (
	root  = filepath.Join("..", "..")
	quiet = slog.New(slog.DiscardHandler)
	words = parser.NewParser(parser.Options{})
)

func text(t *testing.T, elements ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// alerts are the rules as Prometheus reads them, whatever it finds wrong with them fails the test.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	var object struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text(t, "deploy", "kustomize", "components", "monitoring", "rules.yaml")), &object); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	groups, faults := rulefmt.Parse(spec, false, model.LegacyValidation, words, quiet)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var alertRules []rulefmt.Rule
	for _, group := range groups.Groups {
		alertRules = append(alertRules, group.Rules...)
	}
	if len(alertRules) == 0 {
		t.Fatal("there are no alerts")
	}
	return alertRules
}

// newAlertingRule is an alert as Prometheus runs it.
func newAlertingRule(t *testing.T, rule rulefmt.Rule) *rules.AlertingRule {
	t.Helper()
	expression, err := words.ParseExpr(rule.Expr)
	if err != nil {
		t.Fatal(err)
	}
	return rules.NewAlertingRule(rule.Alert, expression, time.Duration(rule.For), time.Duration(rule.KeepFiringFor),
		labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, quiet)
}

func TestEveryAlertIsDocumented(t *testing.T) {
	page := text(t, "docs", "how-to", "alerts.md")
	for _, rule := range alerts(t) {
		severity, annotations := rule.Labels["severity"], rule.Annotations
		if severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
		if annotations["summary"] == "" || len(strings.Fields(annotations["description"])) < 15 {
			t.Errorf("%s says too little: %q", rule.Alert, annotations)
		}
		if want := "docs/how-to/alerts.md#" + strings.ToLower(rule.Alert); annotations["runbook_url"] != want {
			t.Errorf("%s has runbook %q, want %q", rule.Alert, annotations["runbook_url"], want)
		}
		row := "| [`" + rule.Alert + "`](#" + strings.ToLower(rule.Alert) + ") | " + severity + " | " + rule.For.String() + " |"
		if !strings.Contains(page, "\n## "+rule.Alert+"\n") || !strings.Contains(page, row) {
			t.Errorf("docs/how-to/alerts.md has no section %s, or not the row %s", rule.Alert, row)
		}
	}
	if sections := strings.Count(page, "\n## Swarm"); sections != len(alerts(t)) {
		t.Errorf("docs/how-to/alerts.md explains %d alerts, there are %d", sections, len(alerts(t)))
	}
}
