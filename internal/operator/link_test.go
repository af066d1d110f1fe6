package operator

import (
	"net"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/link"
)

// A fakeLease is the Lease that this process sees.
type fakeLease struct {
	fresh  bool
	term   int64
	holder string
}

func (l fakeLease) Fresh() bool    { return l.fresh }
func (l fakeLease) Term() int64    { return l.term }
func (l fakeLease) Holder() string { return l.holder }

func TestOnlyAFreshLeaderThatAcceptsAgentsLeads(t *testing.T) {
	for _, c := range []struct {
		reason      string
		fresh, open bool
		want        bool
	}{
		{"leads and is ready", true, true, true},
		{"leads, and may not welcome agents yet", true, false, false},
		{"leads no more", false, true, false},
	} {
		s := leaderInfo{lease: fakeLease{fresh: c.fresh, term: 7}, acceptsAgents: func() bool { return c.open }}
		if term, leading := s.Leading(); leading != c.want || term != 7 {
			t.Errorf("%s: leading %t in term %d", c.reason, leading, term)
		}
	}
}

func TestStandbyKnowsTheLeadersLink(t *testing.T) {
	for holder, want := range map[string]string{
		"swarm-operator-1_10.0.0.7:9444_0b3e": "10.0.0.7:9444",
		"local-my_host_[fd00::7]:9444_0b3e":   "[fd00::7]:9444",
		"swarm-operator-1_0b3e":               "", // a version from before the link
		"swarm-operator-1_elsewhere_0b3e":     "",
		"swarm-operator-1_:9444_0b3e":         "",
		"":                                    "", // released
		"self_10.0.0.1:9444_0b3e":             "", // this process, which is not open
	} {
		s := leaderInfo{lease: fakeLease{holder: holder}, identity: "self_10.0.0.1:9444_0b3e"}
		if got := s.Leader(); got != want {
			t.Errorf("%q: got %q, want %q", holder, got, want)
		}
	}
}

func TestLinkAddresses(t *testing.T) {
	elsewhere := &rest.Config{Host: "https://127.0.0.1:1"} // does not answer; the route there begins at the same address
	for _, c := range []struct {
		reason, host, address string
		want                  addresses
		name                  string
	}{
		{"in a cluster", "10.0.0.7", "", addresses{"10.0.0.7:9444", "swarm-operator-link.system.svc:9444"}, "swarm-operator-link.system.svc"},
		{"in a cluster of IPv6", "fd00::7", "", addresses{"[fd00::7]:9444", "swarm-operator-link.system.svc:9444"},
			"swarm-operator-link.system.svc"},
		{"in a cluster, agents outside of it", "10.0.0.7", "swarm.example.org:443", addresses{"10.0.0.7:9444", "swarm.example.org:443"},
			"swarm.example.org"},
		{"outside, as configured", "", "[fd00::8]:443", addresses{"[fd00::8]:9444", "[fd00::8]:443"}, "fd00::8"},
		{"outside, by the route", "", "", addresses{"127.0.0.1:9444", "127.0.0.1:9444"}, "127.0.0.1"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got, err := findAddresses(t.Context(), Link{Port: 9444, Address: c.address},
				Environment{Cluster: elsewhere, Namespace: "system", Host: c.host})
			if err != nil || got != c.want {
				t.Errorf("got %+v, want %+v: %v", got, c.want, err)
			}
			names := got.certificateNames("system")
			if !slices.Contains(names, c.name) || !slices.Contains(names, "swarm-operator-link.system.svc") ||
				!slices.Contains(names, "swarm-operator-webhook.system.svc") ||
				!slices.Contains(names, "swarm-operator-metrics.system.svc") {
				t.Errorf("the certificate is for %v", names)
			}
			if linkAddressOf(leaseIdentity("pod", got.process)+"_0b3e") != c.want.process {
				t.Errorf("not found in identity %q", leaseIdentity("pod", got.process))
			}
		})
	}
}

func TestAddressThatTheAPIServerPublishes(t *testing.T) {
	ours := []net.Addr{
		&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)},
		&net.IPNet{IP: net.ParseIP("192.168.3.4"), Mask: net.CIDRMask(24, 32)},
	}
	if got := firstCommonAddress([]string{"192.168.3.9", "192.168.3.4"}, ours); got != "192.168.3.4" {
		t.Errorf("got %q", got)
	}
	if got := firstCommonAddress([]string{"192.168.3.9"}, ours); got != "" {
		t.Errorf("got %q, which is another machine", got)
	}
}

func TestPodsOfSwarmsAreListed(t *testing.T) {
	pod := func(name string, labels map[string]string, deleted *metav1.Time) *metav1.PartialObjectMetadata {
		made := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		made.Namespace, made.Name, made.UID, made.Labels, made.DeletionTimestamp = "demo", name, types.UID("uid-"+name), labels, deleted
		return made
	}
	ours := map[string]string{v1alpha1.LabelSwarm: "research"}
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewSimpleMetadataClient(scheme, pod("here", ours, nil),
		pod("leaving", ours, new(metav1.NewTime(time.Now().Add(time.Minute)))),
		pod("overdue", ours, new(metav1.NewTime(time.Now().Add(-time.Second)))), pod("other", nil, nil))
	pods, err := listAgentPods(cluster)(t.Context())
	want := []link.Identity{{Namespace: "demo", Pod: "here", PodUID: "uid-here"}, {Namespace: "demo", Pod: "leaving", PodUID: "uid-leaving"}}
	if err != nil || !slices.Equal(pods, want) {
		t.Errorf("got %v, %v", pods, err)
	}
}
