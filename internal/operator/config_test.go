package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func written(t *testing.T, text string) string {
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
	if config.Controller.ResyncPeriod.Duration != 30*time.Second || config.Controller.Workers != 5 || !config.Controller.LeaderElection.Enabled {
		t.Errorf("got %+v", config)
	}
	if want := (Link{Port: 9444, AgentLease: seconds(15)}); config.Link != want {
		t.Errorf("got %+v", config.Link)
	}
}

func TestFileAndEnvironment(t *testing.T) {
	path := written(t, "controller: {workers: 7, resyncPeriod: 1m}\nlogging: {level: debug}\n")
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

func TestR07_R08_BadConfigurationIsRefusedWithTheReason(t *testing.T) {
	for _, c := range []struct{ file, env, want string }{
		{"controller: {resyncPeriod: 1s}", "", "controller.resyncPeriod is 1s: the minimum is 5s"},
		{"controller: {worker: 3}", "", "controller.worker is not a key: choose one of leaderElection, namespaceSelector, resyncPeriod, workers"},
		{"webhooks: {}", "", "webhooks is not a key: choose one of api, client, controller, health, link, logging, metrics, webhook"},
		{"controller: {workers: 3, workers: 4}", "", `key "workers" already set in map`},
		{"controller: 3", "", "controller is 3: write keys and their values"},
		{"just words", "", `the configuration is "just words": write keys and their values`},
		{"controller: {workers: three}", "", `controller.workers is "three": write a whole number`},
		{"controller: {workers: 2.5}", "", "controller.workers is 2.5: write a whole number"},
		{"controller: {resyncPeriod: 30}", "", "controller.resyncPeriod is 30: write a duration, such as 30s or 1m30s"},
		{"controller: {namespaceSelector: {matchLabel: {a: b}}}", "", `controller.namespaceSelector is {"matchLabel":{"a":"b"}}: write a label selector, such as`},
		{"metrics: {enabled: 1}", "", "metrics.enabled is 1: write true or false"},
		{"logging: {level: 3}", "", "logging.level is 3: write a text"},
		{"controller: {workers: 0}", "", "controller.workers is 0: choose 1 to 1000"},
		{"logging: {level: loud}", "", `logging.level is "loud": choose one of ["debug" "info" "warn" "error"]`},
		{"logging: {format: xml}", "", `logging.format is "xml": choose one of ["json" "text"]`},
		{"controller: {leaderElection: {leaseDuration: 2s}}", "", "controller.leaderElection.leaseDuration is 2s: the minimum is 6s"},
		{"controller: {leaderElection: {leaseDuration: 2h}}", "", "controller.leaderElection.leaseDuration is 2h0m0s: the maximum is 1h0m0s"},
		{"controller: {leaderElection: {namespace: My_Own}}", "", `controller.leaderElection.namespace is "My_Own": write the name of a namespace`},
		{"metrics: {port: 0}", "", "metrics.port is 0: choose 1 to 65535"},
		{"metrics: {port: 8081}", "", "metrics.port and health.port are both 8081: choose another for one of them"},
		{"api: {port: 8081}", "", "health.port and api.port are both 8081: choose another for one of them"},
		{"link: {port: 8081}", "", "link.port and health.port are both 8081: choose another for one of them"},
		{"webhook: {port: 9444}", "", "webhook.port and link.port are both 9444: choose another for one of them"},
		{"webhook: {certDir: certs}", "", `webhook.certDir is "certs": write a path from the root`},
		{"link: {port: 8080}", "", "metrics.port and link.port are both 8080: choose another for one of them"},
		{"link: {port: 70000}", "", "link.port is 70000: choose 1 to 65535"},
		{"link: {agentLease: 4s}", "", "link.agentLease is 4s: the minimum is 5s"},
		{"link: {agentLease: 6m}", "", "link.agentLease is 6m0s: the maximum is 5m0s"},
		{"link: {address: swarm.example.org}", "", `link.address is "swarm.example.org": write one host and a port`},
		{"link: {address: 'fd00::1:9444'}", "", `link.address is "fd00::1:9444": write one host and a port`},
		{"link: {address: ':9444'}", "", `link.address is ":9444": write one host and a port`},
		{"link: {address: 'a:1,b:2'}", "", `link.address is "a:1,b:2": write one host and a port`},
		{"link: {address: 'a:http'}", "", "the port in link.address is 0: choose 1 to 65535"},
		{"", "SWARM_LINK_AGENT_LEASE=1s", "link.agentLease is 1s: the minimum is 5s"},
		{"client: {qps: 50, burst: 10}", "", "client.burst is 10: choose 50 to 200000"},
		{"controller: {namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}", "", `"Near" is not a valid label selector operator`},
		{"", "SWARM_CONTROLLER_WORKERS=many", `SWARM_CONTROLLER_WORKERS: controller.workers is "many": write a whole number`},
		{"", "SWARM_METRICS_SECURE={", `SWARM_METRICS_SECURE: metrics.secure is "{": write true or false`},
		{"", "SWARM_CONTROLLER_RESYNC_PERIOD=30", "SWARM_CONTROLLER_RESYNC_PERIOD: controller.resyncPeriod is 30: write a duration"},
		{"", "SWARM_CONTROLLER_RESYNC_PERIOD=1s", "controller.resyncPeriod is 1s: the minimum is 5s"},
	} {
		t.Run(c.file+c.env, func(t *testing.T) {
			_, err := Load(written(t, c.file), []string{c.env})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("one problem on several lines: %q", err)
			}
		})
	}
}

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	_, err := Load(written(t, "controller: {worker: 1, workers: 0}\nlogging: {format: xml}"), []string{"SWARM_HEALTH_PORT=x"})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 4 {
		t.Errorf("got %v", err)
	}
}

func TestPortsOfServersThatAreOffDoNotCount(t *testing.T) {
	if _, err := Load(written(t, "metrics: {enabled: false, port: 9444}\nwebhook: {enabled: false, port: 9444}"), []string{"SWARM_LINK_ADDRESS=[fd00::1]:443"}); err != nil {
		t.Error(err)
	}
}

func TestMissingFileIsTold(t *testing.T) {
	if _, err := Load("/nowhere/config.yaml", nil); err == nil || !strings.Contains(err.Error(), "/nowhere/config.yaml") {
		t.Errorf("got %v", err)
	}
}
