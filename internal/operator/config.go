// Package operator assembles the operator: configuration, clients, controllers, servers. It is the only package that reads files and
// the environment.
package operator

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Config is everything that can be set. The field names are those of the configuration file; each can be overridden by an environment
// variable named SWARM_ and the path in capitals, such as SWARM_CONTROLLER_RESYNC_PERIOD.
type Config struct {
	Controller Controller `json:"controller"`
	Webhook    Webhook    `json:"webhook"`
	NodeLabels NodeLabels `json:"nodeLabels"`
	Spread     Spread     `json:"spread"`
	Link       Link       `json:"link"`
	Logging    Logging    `json:"logging"`
	Metrics    Metrics    `json:"metrics"`
	Health     Health     `json:"health"`
	API        API        `json:"api"`
	Client     Client     `json:"client"`
	Limits     Limits     `json:"limits"`
}

// Controller configures reconciling.
type Controller struct {
	ResyncPeriod      metav1.Duration      `json:"resyncPeriod"`
	Workers           int                  `json:"workers"`
	LeaderElection    LeaderElection       `json:"leaderElection"`
	Namespaces        string               `json:"namespaces"` // comma-separated names; empty: the whole cluster
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	ReadOnly          bool                 `json:"readOnly"` // spread only reports
	CacheSyncTimeout  metav1.Duration      `json:"cacheSyncTimeout"`
}

// LeaderElection configures which of several replicas acts.
type LeaderElection struct {
	Enabled       bool            `json:"enabled"`
	Namespace     string          `json:"namespace"` // empty: the operator's own
	LeaseDuration metav1.Duration `json:"leaseDuration"`
}

// Webhook configures admission of pods.
type Webhook struct {
	Enabled bool   `json:"enabled"`
	Port    int    `json:"port"`
	CertDir string `json:"certDir"` // tls.crt and tls.key from another source; without them the operator has its own
	// ClientCA is a file with the CA certificates of the webhook's callers; "" lets anyone call.
	ClientCA string `json:"clientCA"`
	URL      string `json:"url"` // at which the operator registers the webhook itself; "" leaves that to an installation
}

// NodeLabels are comma-separated key=value pairs; a node with any of them belongs to that class.
type NodeLabels struct {
	Spot     string `json:"spot"`
	OnDemand string `json:"onDemand"`
}

// Spread configures how workloads are kept split between spot and on-demand nodes.
type Spread struct {
	AnnotationPrefix  string             `json:"annotationPrefix"`
	PendingDeadline   metav1.Duration    `json:"pendingDeadline"`
	Cooldown          metav1.Duration    `json:"cooldown"`
	Step              intstr.IntOrString `json:"step"`
	Provisioner       string             `json:"provisioner"`
	Notices           string             `json:"notices"` // comma-separated keys of taints; a trailing * matches all keys with that prefix
	DisruptionWindows string             `json:"disruptionWindows"`
}

// Link configures how agents reach the operator, and how long they work without hearing from it, unless their type says otherwise.
type Link struct {
	Port       int             `json:"port"`
	Address    string          `json:"address"` // what agents dial; empty: the operator's Service, or this machine outside of a cluster
	AgentLease metav1.Duration `json:"agentLease"`
}

// Logging configures what is written to standard error.
type Logging struct {
	Level  string `json:"level"`
	Format string `json:"format"`
}

// Metrics configures where Prometheus scrapes the operator.
type Metrics struct {
	Enabled bool `json:"enabled"`
	Port    int  `json:"port"`
	Secure  bool `json:"secure"`
}

// Health configures the kubelet's probes.
type Health struct {
	Port int `json:"port"`
}

// API configures where users query the operator, through `kubectl port-forward`.
type API struct {
	Port int `json:"port"`
}

// Client limits the requests of all controllers together. Caches, the Lease, events and the link are not counted.
type Client struct {
	QPS   int `json:"qps"`
	Burst int `json:"burst"`
}

// Limits bound what one namespace, or one address, can cost all others.
type Limits struct {
	TasksPerNamespace    int               `json:"tasksPerNamespace"`    // unfinished ones that are held in memory
	BytesPerNamespace    resource.Quantity `json:"bytesPerNamespace"`    // of those tasks
	ConnectionsPerSource int               `json:"connectionsPerSource"` // to the link, from one address, before the agent is authenticated
	RequestShare         int               `json:"requestShare"`         // of client.qps and client.burst that one namespace can use up, in percent

	WebhookConnectionsPerSource int `json:"webhookConnectionsPerSource"` // to the webhook, from one address

	CacheBytesPerNamespace resource.Quantity `json:"cacheBytesPerNamespace"` // of objects of one namespace, before less is kept of each
}

// Defaults returns the default configuration.
func Defaults() Config {
	return Config{
		Controller: Controller{
			ResyncPeriod:     seconds(30),
			Workers:          5,
			LeaderElection:   LeaderElection{Enabled: true, LeaseDuration: seconds(12)},
			CacheSyncTimeout: seconds(120),
		},
		Webhook:    Webhook{Enabled: true, Port: 9443, CertDir: "/tmp/k8s-webhook-server/serving-certs"},
		NodeLabels: NodeLabels{Spot: "karpenter.sh/capacity-type=spot", OnDemand: "karpenter.sh/capacity-type=on-demand"},
		Spread:     spreadDefaults(),
		Link:       Link{Port: 9444, AgentLease: seconds(45)},
		Logging:    Logging{Level: "info", Format: "json"},
		Metrics:    Metrics{Enabled: true, Port: 8080, Secure: true},
		Health:     Health{Port: 8081},
		API:        API{Port: 8082},
		Client:     Client{QPS: 500, Burst: 1000},
		Limits: Limits{
			TasksPerNamespace: 200_000, BytesPerNamespace: resource.MustParse("256Mi"), ConnectionsPerSource: 64, RequestShare: 50,
			WebhookConnectionsPerSource: 600, // as many requests as an API server works on at once, by default
			CacheBytesPerNamespace:      resource.MustParse("64Mi"),
		},
	}
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
