package spread

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/testkit/ports"
	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// The settings of all operators here, about a tenth of the standard.
const (
	cooldown = time.Second
	deadline = 5 * time.Second
)

// An operatorFleet is the replicas of the operator, and the proxy through which the API server calls them in turn.
type operatorFleet struct {
	port   string // of the proxy
	folder string // of the certificate that the proxy and all replicas serve
	server *http.Server

	lock            sync.Mutex
	replicas        []*replica
	nextIndex       int
	webhookRequests []webhookRequest
}

// A replica is one process of the operator.
type replica struct {
	name, webhook, health, metrics string
	session                        *gexec.Session
}

// startReplica starts one more replica, with the settings that all have and some more, and waits until it is ready.
func (f *operatorFleet) startReplica(ctx context.Context, settings ...string) *replica {
	GinkgoHelper()
	r := &replica{name: fmt.Sprintf("replica-%d", time.Now().UnixNano()), webhook: ports.Free(), health: ports.Free(), metrics: ports.Free()}
	link := ports.Free()
	r.session = testcluster.StartOperator(home, append([]string{
		"POD_NAME=" + r.name, "SWARM_LOGGING_FORMAT=text",
		testcluster.OnlyLabelled(ours), "SWARM_CONTROLLER_RESYNC_PERIOD=10m",
		"SWARM_CONTROLLER_LEADER_ELECTION_LEASE_DURATION=6s",
		"SWARM_SPREAD_COOLDOWN=" + cooldown.String(), "SWARM_SPREAD_PENDING_DEADLINE=" + deadline.String(),
		"SWARM_WEBHOOK_PORT=" + r.webhook, "SWARM_WEBHOOK_CERT_DIR=" + f.folder, "SWARM_HEALTH_PORT=" + r.health,
		"SWARM_METRICS_PORT=" + r.metrics, "SWARM_METRICS_SECURE=false",
		"SWARM_LINK_PORT=" + link, "SWARM_LINK_ADDRESS=127.0.0.1:" + link,
	}, settings...)...)
	Eventually(r.ready).WithContext(ctx).Should(Equal(http.StatusOK))
	f.lock.Lock()
	defer f.lock.Unlock()
	f.replicas = append(f.replicas, r)
	return r
}

// ensureReplicas starts replicas up to this number, until the spec ends.
func (f *operatorFleet) ensureReplicas(ctx context.Context, size int) {
	GinkgoHelper()
	for len(f.listReplicas()) < size {
		f.startReplica(ctx)
	}
	DeferCleanup(func(ctx SpecContext) {
		if len(f.listReplicas()) == 0 {
			f.startReplica(ctx)
		}
		for _, surplus := range f.listReplicas()[1:] {
			f.stopReplica(surplus)
		}
	})
}

func (r *replica) ready(ctx context.Context) (int, error) {
	status, _, err := testcluster.HTTPGet(ctx, "http://127.0.0.1:"+r.health+"/readyz")
	return status, err
}

func (f *operatorFleet) listReplicas() []*replica {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.Clone(f.replicas)
}

// stopRouting stops the proxy from sending requests to a replica.
func (f *operatorFleet) stopRouting(r *replica) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.replicas = slices.DeleteFunc(f.replicas, func(one *replica) bool { return one == r })
}

// startRouting makes the proxy send requests to a replica again.
func (f *operatorFleet) startRouting(r *replica) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.replicas = append(f.replicas, r)
}

// stopReplica stops a replica as Kubernetes would.
func (f *operatorFleet) stopReplica(r *replica) {
	GinkgoHelper()
	f.stopRouting(r)
	Eventually(r.session.Terminate()).Should(gexec.Exit())
}

// stopAll stops all replicas.
func (f *operatorFleet) stopAll() {
	GinkgoHelper()
	for _, r := range f.listReplicas() {
		f.stopReplica(r)
	}
}

// replaceReplicas runs the operator with other settings, until the spec ends.
func (f *operatorFleet) replaceReplicas(ctx context.Context, settings ...string) *replica {
	GinkgoHelper()
	f.stopAll()
	replacement := f.startReplica(ctx, settings...)
	DeferCleanup(func(ctx SpecContext) {
		f.stopAll()
		f.startReplica(ctx)
	})
	return replacement
}

// leader is the replica that holds the Lease.
func (f *operatorFleet) leader(ctx context.Context) (*replica, error) {
	lease := &coordinationv1.Lease{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: home, Name: "swarm-operator"}, lease); err != nil {
		return nil, err
	}
	for _, r := range f.listReplicas() {
		if lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, r.name) {
			return r, nil
		}
	}
	return nil, nil
}

// awaitLeader waits for a leader, and returns it.
func (f *operatorFleet) awaitLeader(ctx context.Context) *replica {
	GinkgoHelper()
	var result *replica
	Eventually(func() (leader *replica, err error) {
		result, err = f.leader(ctx)
		return result, err
	}).ShouldNot(BeNil())
	return result
}

// next is the next replica in turn, nil without replicas.
func (f *operatorFleet) next() *replica {
	f.lock.Lock()
	defer f.lock.Unlock()
	if len(f.replicas) == 0 {
		return nil
	}
	f.nextIndex++
	return f.replicas[f.nextIndex%len(f.replicas)]
}

// insecureTransport is for connections to replicas, which serve the certificate of the proxy.
var insecureTransport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	MaxIdleConnsPerHost: 100}
