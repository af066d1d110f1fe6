package operator

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// keyLimits are the limits of what each key accepts, and values just beyond. docs/reference/configuration.md names the former.
var keyLimits = map[string]struct{ takes, refuses []string }{
	"controller.cacheSyncTimeout":             {takes: []string{"1s"}, refuses: []string{"999ms", "-1s", "30"}},
	"controller.resyncPeriod":                 {takes: []string{"5s"}, refuses: []string{"4999ms", "-1s", "30"}},
	"controller.workers":                      {takes: []string{"1", "1000"}, refuses: []string{"0", "1001", "five"}},
	"controller.leaderElection.enabled":       {takes: []string{"true", "false"}, refuses: []string{"maybe"}},
	"controller.leaderElection.namespace":     {refuses: []string{"My_Own", strings.Repeat("a", 64)}},
	"controller.leaderElection.leaseDuration": {takes: []string{"6s", "16s"}, refuses: []string{"5999ms", "17s"}},
	"controller.namespaces":                   {refuses: []string{"My_Own", "a,,b", "a,b,a", strings.Repeat("a", 64)}},
	"controller.namespaceSelector":            {refuses: []string{"team=a", "{matchLabels: {a: '?'}}"}},
	"controller.readOnly":                     {takes: []string{"true", "false"}, refuses: []string{"maybe"}},
	"webhook.enabled":                         {takes: []string{"true", "false"}, refuses: []string{"maybe"}},
	"webhook.port":                            {takes: []string{"1", "65535"}, refuses: []string{"0", "65536"}},
	"webhook.certDir":                         {refuses: []string{"certs", ""}},
	"webhook.clientCA":                        {refuses: []string{"ca.crt"}},
	"webhook.url": {takes: []string{"auto"},
		refuses: []string{"AUTO", "127.0.0.1:9443", "http://127.0.0.1:9443", "https://", "https://:9443", "https://a:0", "https://a:65536",
			"https://a/pods", "https://a?b=c", "https://a#b", "https://me@a"}},
	"nodeLabels.spot": {refuses: []string{"", "spot", "a=b c", "a=b,", "karpenter.sh/capacity-type=on-demand",
		strings.Repeat("a=b,", 10) + "c=d"}},
	"nodeLabels.onDemand":     {refuses: []string{"", "=on-demand", "a b=c", "karpenter.sh/capacity-type=spot"}},
	"spread.annotationPrefix": {refuses: []string{"", "/", "example.org", "Example.org/", "a/b/"}},
	"spread.pendingDeadline":  {takes: []string{"5s", "1h"}, refuses: []string{"4999ms", "3601s"}},
	"spread.cooldown":         {takes: []string{"1s", "1h"}, refuses: []string{"999ms", "3601s"}},
	"spread.step": {takes: []string{"1", "10000", "1%", "100%"},
		refuses: []string{"0", "10001", "0%", "101%", "-1", "half", "1.5"}},
	"spread.provisioner":                 {takes: []string{"auto", "present", "none"}, refuses: []string{"karpenter", ""}},
	"spread.notices":                     {refuses: []string{"*", "a,,b", "a b", "a*b"}},
	"spread.disruptionWindows":           {refuses: []string{"always", "0 2 * * 6", "0 2 * * 6 for 169h"}},
	"link.port":                          {takes: []string{"1", "65535"}, refuses: []string{"0", "65536"}},
	"link.address":                       {refuses: []string{"host", "host:0", ":1"}},
	"link.agentLease":                    {takes: []string{"39s", "1h"}, refuses: []string{"38999ms", "3601s"}},
	"logging.level":                      {takes: []string{"debug", "info", "warn", "error"}, refuses: []string{"loud", ""}},
	"logging.format":                     {takes: []string{"json", "text"}, refuses: []string{"xml", ""}},
	"metrics.enabled":                    {takes: []string{"true", "false"}, refuses: []string{"1"}},
	"metrics.port":                       {takes: []string{"1", "65535"}, refuses: []string{"0", "65536"}},
	"metrics.secure":                     {takes: []string{"true", "false"}, refuses: []string{"tls"}},
	"health.port":                        {takes: []string{"1", "65535"}, refuses: []string{"0", "65536"}},
	"api.port":                           {takes: []string{"1", "65535"}, refuses: []string{"0", "65536"}},
	"client.qps":                         {takes: []string{"1", "100000"}, refuses: []string{"0", "100001"}},
	"limits.connectionsPerSource":        {takes: []string{"1", "10000"}, refuses: []string{"0", "10001", "many"}},
	"limits.requestShare":                {takes: []string{"1", "100"}, refuses: []string{"0", "101", "50%"}},
	"limits.webhookConnectionsPerSource": {takes: []string{"1", "2048"}, refuses: []string{"0", "2049", "many"}},
	"client.burst":                       {takes: []string{"200000"}, refuses: []string{"99", "200001"}},
	"limits.tasksPerNamespace":           {takes: []string{"1", "10000000"}, refuses: []string{"0", "10000001", "many"}},
	"limits.cacheBytesPerNamespace":      {takes: []string{"1Mi", "64Gi"}, refuses: []string{"1048575", "65Gi", "-1", "much"}},
	"limits.bytesPerNamespace":           {takes: []string{"16Ki", "64Gi"}, refuses: []string{"16383", "65Gi", "-1", "much"}},
}

// A documented key is a row of the table in docs/reference/configuration.md.
type documentedKey struct{ defaultValue, accepts, variable, effect string }

func documentation(t *testing.T) map[string]documentedKey {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]documentedKey{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for n := range cells {
			cells[n] = strings.TrimSpace(cells[n])
		}
		bare := func(cell string) string { return strings.Trim(cell, "`") }
		rows[bare(cells[1])] = documentedKey{defaultValue: bare(cells[2]), accepts: cells[3], variable: bare(cells[4]), effect: cells[5]}
	}
	return rows
}

func TestR07_EveryKeyIsDocumentedAsItIs(t *testing.T) {
	rows, defaults := documentation(t), keyValues(Defaults())
	if documented := slices.Sorted(maps.Keys(rows)); !slices.Equal(documented, Keys()) {
		t.Errorf("docs/reference/configuration.md has %v,\nthe configuration has   %v", documented, Keys())
	}
	for key, row := range rows {
		if row.defaultValue != defaults[key] || row.variable != environmentVariable(key) || row.effect == "" {
			t.Errorf("%s: the document has %+v, the default is %q, the variable %s", key, row, defaults[key], environmentVariable(key))
		}
		for _, edge := range keyLimits[key].takes {
			if !strings.Contains(row.accepts, "`"+edge+"`") {
				t.Errorf("%s takes %s, and the document says %q", key, edge, row.accepts)
			}
		}
	}
}

func TestR07_R08_EveryKeyRefusesWhatCannotWork(t *testing.T) {
	if known := slices.Sorted(maps.Keys(keyLimits)); !slices.Equal(known, Keys()) {
		t.Fatalf("edges has %v,\nthe configuration has %v", known, Keys())
	}
	for key, edge := range keyLimits {
		burst := "" // must not be less than qps
		if key == "client.qps" {
			burst = "SWARM_CLIENT_BURST=200000"
		}
		for _, value := range edge.takes {
			if _, err := Load("", []string{environmentVariable(key) + "=" + value, burst}); err != nil {
				t.Errorf("%s: %v", value, err)
			}
		}
		for _, value := range edge.refuses {
			_, err := Load("", []string{environmentVariable(key) + "=" + value, burst})
			if err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s=%s: got %v", key, value, err)
			}
		}
	}
}

func TestExamplesOfTheDocumentWork(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(after, "```")
	config, err := Load(writeConfig(t, example), nil)
	if err != nil || !found || reflect.DeepEqual(config, Defaults()) {
		t.Errorf("got %+v: %v", config, err)
	}
	_, err = Load(writeConfig(t, "controller: {worker: 1, resyncPeriod: 1s}"), []string{"SWARM_CONTROLLER_WORKERS=many"})
	if err == nil {
		t.Fatal("accepted")
	}
	for problem := range strings.Lines(err.Error()) {
		if quoted := strings.ReplaceAll(strings.TrimSpace(problem), `"`, `\"`); !strings.Contains(string(text), quoted) {
			t.Errorf("the document does not have %s", quoted)
		}
	}
}
