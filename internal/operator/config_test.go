package operator

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsWork(t *testing.T) {
	config, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("[S16/default-period]", func(t *testing.T) {
		if config.Controller.ResyncPeriod.Duration != 30*time.Second {
			t.Errorf("resyncPeriod is %s", config.Controller.ResyncPeriod.Duration)
		}
	})
	if config.Controller.Workers != 5 || !config.Controller.LeaderElection.Enabled {
		t.Errorf("got %+v", config)
	}
	if want := (Link{Port: 9444, AgentLease: seconds(45)}); config.Link != want {
		t.Errorf("got %+v", config.Link)
	}
}

func TestR07_FileAndEnvironment(t *testing.T) {
	path := writeConfig(t, "controller: {workers: 7, resyncPeriod: 1m}\nlogging: {level: debug}\n")
	config, err := Load(path, []string{
		"SWARM_CONTROLLER_WORKERS=9", "SWARM_CONTROLLER_RESYNC_PERIOD=45s", "SWARM_METRICS_ENABLED=false",
		"SWARM_CONTROLLER_NAMESPACESELECTOR={matchLabels: {team: a}}",
		"SWARM_OPERATOR_SERVICE_HOST=10.0.0.1", "HOME=/nowhere",
	})
	if err != nil {
		t.Fatal(err)
	}
	if config.Controller.Workers != 9 || config.Controller.ResyncPeriod.Duration != 45*time.Second {
		t.Errorf("the environment comes last: %+v", config.Controller)
	}
	if config.Logging.Level != "debug" || config.Logging.Format != "json" || config.Metrics.Enabled {
		t.Errorf("got %+v", config)
	}
	if config.Controller.NamespaceSelector.MatchLabels["team"] != "a" {
		t.Errorf("got %+v", config.Controller.NamespaceSelector)
	}
}

func TestR08_BadConfigurationIsRefusedWithTheReason(t *testing.T) {
	for _, c := range []struct{ file, env, want string }{
		{"controller: {resyncPeriod: 1s}", "", "controller.resyncPeriod is 1s: the minimum is 5s"},
		{"controller: {worker: 3}", "",
			"controller.worker is not a key: choose one of cacheSyncTimeout, leaderElection, namespaceSelector, namespaces, readOnly, resyncPeriod, workers"},
		{"webhooks: {}", "",
			"webhooks is not a key: choose one of api, client, controller, health, limits, link, logging, metrics, nodeLabels, spread, webhook"},
		{"controller: {workers: 3, workers: 4}", "", `key "workers" already set in map`},
		{"controller: 3", "", "controller is 3: write keys and their values"},
		{"just words", "", `the configuration is "just words": write keys and their values`},
		{"controller: {workers: three}", "", `controller.workers is "three": write a whole number`},
		{"controller: {workers: 2.5}", "", "controller.workers is 2.5: write a whole number"},
		{"controller: {resyncPeriod: 30}", "", "controller.resyncPeriod is 30: write a duration, such as 30s or 1m30s"},
		{"controller: {namespaceSelector: {matchLabel: {a: b}}}", "",
			`controller.namespaceSelector is {"matchLabel":{"a":"b"}}: write a label selector, such as`},
		{"metrics: {enabled: 1}", "", "metrics.enabled is 1: write true or false"},
		{"logging: {level: 3}", "", "logging.level is 3: write a text"},
		{"controller: {workers: 0}", "", "controller.workers is 0: choose 1 to 1000"},
		{"logging: {level: loud}", "", `logging.level is "loud": choose one of ["debug" "info" "warn" "error"]`},
		{"logging: {format: xml}", "", `logging.format is "xml": choose one of ["json" "text"]`},
		{"controller: {leaderElection: {leaseDuration: 2s}}", "", "controller.leaderElection.leaseDuration is 2s: the minimum is 6s"},
		{"controller: {leaderElection: {leaseDuration: 2h}}", "", "controller.leaderElection.leaseDuration is 2h0m0s: the maximum is 30m0s"},
		{"controller: {leaderElection: {namespace: My_Own}}", "",
			`controller.leaderElection.namespace is "My_Own": write the name of a namespace`},
		{"metrics: {port: 0}", "", "metrics.port is 0: choose 1 to 65535"},
		{"metrics: {port: 8081}", "", "metrics.port and health.port are both 8081: choose another for one of them"},
		{"api: {port: 8081}", "", "health.port and api.port are both 8081: choose another for one of them"},
		{"link: {port: 8081}", "", "link.port and health.port are both 8081: choose another for one of them"},
		{"webhook: {port: 9444}", "", "webhook.port and link.port are both 9444: choose another for one of them"},
		{"webhook: {certDir: certs}", "", `webhook.certDir is "certs": write a path from the root`},
		{"webhook: {url: 'http://127.0.0.1:9443'}", "",
			`webhook.url is "http://127.0.0.1:9443": write "auto", or https, a host and a port, such as "https://127.0.0.1:9443"`},
		{"webhook: {enabled: false, url: 'https://127.0.0.1:9443'}", "",
			"webhook.enabled is false, so nothing would answer there: write true, or remove webhook.url"},
		{"link: {port: 8080}", "", "metrics.port and link.port are both 8080: choose another for one of them"},
		{"link: {port: 70000}", "", "link.port is 70000: choose 1 to 65535"},
		{"link: {agentLease: 4s}", "", "link.agentLease is 4s: the minimum is 5s"},
		{"link: {agentLease: 2h}", "", "link.agentLease is 2h0m0s: the maximum is 1h0m0s"},
		{"link: {agentLease: 38s}", "",
			"link.agentLease is 38s: with controller.leaderElection.leaseDuration 12s every change of leaders would stop all work, so write 39s or more"},
		{"link: {address: swarm.example.org}", "", `link.address is "swarm.example.org": write one host and a port`},
		{"link: {address: 'fd00::1:9444'}", "", `link.address is "fd00::1:9444": write one host and a port`},
		{"link: {address: ':9444'}", "", `link.address is ":9444": write one host and a port`},
		{"link: {address: 'a:1,b:2'}", "", `link.address is "a:1,b:2": write one host and a port`},
		{"link: {address: 'a:http'}", "", "the port in link.address is 0: choose 1 to 65535"},
		{"", "SWARM_LINK_AGENT_LEASE=1s", "link.agentLease is 1s: the minimum is 5s"},
		{"nodeLabels: {spot: spot}", "", `nodeLabels.spot: "spot" is no label: write key=value, such as karpenter.sh/capacity-type=spot`},
		{"nodeLabels: {spot: 'a=b,'}", "", `nodeLabels.spot: "" is no label: write key=value`},
		{"nodeLabels: {spot: {a: b}}", "", `nodeLabels.spot is {"a":"b"}: write a text`},
		{"nodeLabels: {onDemand: 'karpenter.sh/capacity-type=spot, a=b'}", "",
			`nodeLabels.spot and nodeLabels.onDemand both have "karpenter.sh/capacity-type=spot": a node is one or the other, so take it out of one`},
		{"nodeLabels: {spot: '" + strings.Repeat("a=b,", 10) + "c=d'}", "", "nodeLabels.spot has 11 labels: write at most 10"},
		{"spread: {annotationPrefix: example.org}", "",
			`spread.annotationPrefix is "example.org": write a domain and a slash, such as "spread.example.org/"`},
		{"spread: {pendingDeadline: 2s}", "", "spread.pendingDeadline is 2s: the minimum is 5s"},
		{"spread: {cooldown: 100ms}", "", "spread.cooldown is 100ms: the minimum is 1s"},
		{"spread: {step: 0}", "", `spread.step is "0": write a number of replicas from 1 to 10000 or a share from 1% to 100%, such as 25%`},
		{"spread: {step: 120%}", "", `spread.step is "120%": write a number of replicas`},
		{"spread: {step: some}", "", `spread.step is "some": write a number of replicas`},
		{"spread: {step: 1.5}", "", "spread.step is 1.5: write a whole number or a share, such as 2 or 25%"},
		{"spread: {provisioner: karpenter}", "", `spread.provisioner is "karpenter": choose one of ["auto" "present" "none"]`},
		{"spread: {notices: '*'}", "",
			`spread.notices is "*": write comma-separated keys of taints, such as "example.org/going,example.com/stop-*"`},
		{"spread: {notices: 'a,,b'}", "", `spread.notices is "a,,b": write comma-separated keys of taints`},
		{"spread: {disruptionWindows: 0 2 * * 6}", "",
			`spread.disruptionWindows: window "0 2 * * 6": write "<minute> <hour> <day> <month> <weekday> for <duration>"`},
		{"client: {qps: 50, burst: 10}", "", "client.burst is 10: choose 50 to 200000"},
		{"controller: {namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}", "", `"Near" is not a valid label selector operator`},
		{"limits: {tasksPerNamespace: 0}", "", "limits.tasksPerNamespace is 0: choose 1 to 10000000"},
		{"limits: {bytesPerNamespace: 1Ki}", "", "limits.bytesPerNamespace is 1Ki: choose 16Ki to 64Gi"},
		{"limits: {bytesPerNamespace: much}", "", `limits.bytesPerNamespace is "much": write a number of bytes, such as 256Mi`},
		{"", "SWARM_CONTROLLER_WORKERS=many", `SWARM_CONTROLLER_WORKERS: controller.workers is "many": write a whole number`},
		{"", "SWARM_METRICS_SECURE={", `SWARM_METRICS_SECURE: metrics.secure is "{": write true or false`},
		{"", "SWARM_CONTROLLER_RESYNC_PERIOD=30", "SWARM_CONTROLLER_RESYNC_PERIOD: controller.resyncPeriod is 30: write a duration"},
		{"", "SWARM_CONTROLLER_RESYNC_PERIOD=1s", "controller.resyncPeriod is 1s: the minimum is 5s"},
	} {
		t.Run(c.file+c.env, func(t *testing.T) {
			_, err := Load(writeConfig(t, c.file), []string{c.env})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("one problem on several lines: %q", err)
			}
		})
	}
}

func TestAllConfigurationProblemsAreReported(t *testing.T) {
	_, err := Load(writeConfig(t, "controller: {worker: 1, workers: 0}\nlogging: {format: xml}"), []string{"SWARM_HEALTH_PORT=x"})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 4 {
		t.Errorf("got %v", err)
	}
}

func TestPortsOfServersThatAreOffDoNotCount(t *testing.T) {
	if _, err := Load(writeConfig(t, "metrics: {enabled: false, port: 9444}\nwebhook: {enabled: false, port: 9444}"),
		[]string{"SWARM_LINK_ADDRESS=[fd00::1]:443"}); err != nil {
		t.Error(err)
	}
}

func TestMissingConfigurationFileIsAnError(t *testing.T) {
	if _, err := Load("/nowhere/config.yaml", nil); err == nil || !strings.Contains(err.Error(), "/nowhere/config.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestSpreadSettingsFollowTheConfiguration(t *testing.T) {
	config, err := Load(writeConfig(t, `
controller: {readOnly: true}
nodeLabels: {spot: "example.org/tier=cheap, cloud.google.com/gke-spot=true", onDemand: example.org/tier=steady}
spread: {annotationPrefix: split.example.org/, pendingDeadline: 2m, cooldown: 3s, step: 2, provisioner: none, notices: " a/b*, c ", disruptionWindows: 0 2 * * 6 for 4h}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := snapshot.Settings{
		Prefix: "split.example.org/", Spot: []snapshot.Label{{Key: "example.org/tier", Value: "cheap"},
			{Key: "cloud.google.com/gke-spot", Value: "true"}},
		OnDemand: []snapshot.Label{{Key: "example.org/tier", Value: "steady"}}, Notices: []string{"a/b*", "c"},
		Provisioner:     snapshot.ProvisionerNone,
		PendingDeadline: 2 * time.Minute, Cooldown: 3 * time.Second, Step: intstr.FromInt32(2), Windows: "0 2 * * 6 for 4h", ReadOnly: true,
	}
	if got := config.spreadSettings(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got, want := Defaults().spreadSettings(), snapshot.DefaultSettings(); !reflect.DeepEqual(got, want) {
		t.Errorf("the command line has other defaults:\ngot  %+v\nwant %+v", got, want)
	}
	none, err := Load("", []string{"SWARM_SPREAD_NOTICES="})
	if got := none.spreadSettings(); err != nil || len(got.Notices) != 0 || got.Step.String() != "25%" {
		t.Errorf("got %+v: %v", got, err)
	}
}
