package webhookconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/util/cert"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/certs"
	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

const name = "swarm-operator-webhook.swarm-system.svc"

var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// A testCA is a CA and what it has signed.
type testCA struct {
	bundle string
	leaf   *tls.Certificate
}

func newTestCA(t *testing.T) testCA {
	t.Helper()
	ca, _, err := certs.DefaultLifetimes().Next(nil, start, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := tls.X509KeyPair(ca["tls.crt"], ca["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return testCA{string(ca["ca.crt"]), &leaf}
}

// configurationTrusting returns a configuration whose webhooks all have that bundle.
func configurationTrusting(bundle string) *admissionv1.MutatingWebhookConfiguration {
	found := configuration()
	for n := range found.Webhooks {
		found.Webhooks[n].ClientConfig.CABundle = []byte(bundle)
	}
	return found
}

// certHarness is a replica whose Secret and clock a test sets.
type certHarness struct {
	*ServingCert
	latest, former *tls.Certificate
	clock          time.Time
}

func newCertHarness(latest, former *tls.Certificate) *certHarness {
	s := &certHarness{latest: latest, former: former, clock: start}
	s.ServingCert = NewServingCert(func(context.Context) (*tls.Certificate, *tls.Certificate) { return s.latest, s.former })
	s.now = func() time.Time { return s.clock }
	return s
}

func (s *certHarness) current() *tls.Certificate {
	shown, _ := s.Certificate(&tls.ClientHelloInfo{})
	return shown
}

func TestServingCertIsOneThatTheAPIServerTrusts(t *testing.T) {
	old, fresh := newTestCA(t), newTestCA(t)
	both := fresh.bundle + old.bundle
	for _, c := range []struct {
		reason         string
		latest, former *tls.Certificate
		heard          []string // one each second
		later          time.Duration
		want           *tls.Certificate
	}{
		{"nothing is there", nil, nil, []string{old.bundle}, 0, nil},
		{"the first one, which has not been published", fresh.leaf, nil, nil, 0, fresh.leaf},
		{"the API server has yet to be told", fresh.leaf, old.leaf, []string{old.bundle}, time.Hour, old.leaf},
		{"another API server may not have heard", fresh.leaf, old.leaf, []string{old.bundle, both}, caPropagationDelay - 1, old.leaf},
		{"all have heard", fresh.leaf, old.leaf, []string{old.bundle, both}, caPropagationDelay, fresh.leaf},
		{"all have, in any order", fresh.leaf, old.leaf, []string{both, old.bundle + fresh.bundle}, caPropagationDelay - time.Second, fresh.leaf},
		{"it was forgotten in between", fresh.leaf, old.leaf, []string{both, old.bundle, both}, caPropagationDelay - time.Second, old.leaf},
		{"the former one is known no more", fresh.leaf, old.leaf, []string{old.bundle, fresh.bundle}, 0, fresh.leaf},
		{"the configuration was deleted", fresh.leaf, old.leaf, []string{old.bundle, ""}, 0, fresh.leaf},
		{"the former one has expired", fresh.leaf, old.leaf, []string{old.bundle}, certs.DefaultLifetimes().Serving, fresh.leaf},
	} {
		t.Run(c.reason, func(t *testing.T) {
			s := newCertHarness(c.latest, c.former)
			for n, bundle := range c.heard {
				s.clock = start.Add(time.Duration(n) * time.Second)
				s.observeTrusted(configurationTrusting(bundle))
			}
			s.clock = s.clock.Add(c.later)
			if s.current() != c.want {
				t.Error("shows the other one")
			}
		})
	}
}

func TestACAIsTrustedWhereEveryWebhookHasIt(t *testing.T) {
	old, fresh := newTestCA(t), newTestCA(t)
	found := configurationTrusting(old.bundle)
	found.Webhooks[1].ClientConfig.CABundle = []byte(fresh.bundle + old.bundle)
	if got := commonCAs(found); len(got) != 1 || old.leaf.Leaf.CheckSignatureFrom(got[0]) != nil {
		t.Errorf("%d are trusted", len(got))
	}
}

// laggingView is a view that lags behind by some time.
type laggingView struct {
	history []struct {
		at     time.Time
		bundle string
	}
	lag time.Duration
}

func (l *laggingView) record(at time.Time, bundle string) {
	l.history = append(l.history, struct {
		at     time.Time
		bundle string
	}{at, bundle})
}

func (l *laggingView) bundleAt(now time.Time) (bundle string) {
	for _, word := range l.history {
		if !word.at.Add(l.lag).After(now) {
			bundle = word.bundle
		}
	}
	return bundle
}

// Everything is created again at once. However late the leader writes, and however late the replica and the API server observe it, the
// API server can connect at any moment.
func TestNoConnectionFailsWhenAllIsMadeAnew(t *testing.T) {
	old, fresh, connect := newTestCA(t), newTestCA(t), newCachedVerifier()
	rapid.Check(t, func(t *rapid.T) {
		upTo := func(most time.Duration, what string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most/time.Millisecond)).Draw(t, what)) * time.Millisecond
		}
		replica, server := laggingView{lag: upTo(10*time.Second, "replica hears")},
			laggingView{lag: upTo(caPropagationDelay-time.Millisecond, "API server hears")}
		seen, writes := start.Add(upTo(10*time.Second, "replica sees Secret")), start.Add(upTo(20*time.Second, "leader writes"))
		k := caBundleController{}
		s := newCertHarness(old.leaf, nil)
		stored, view := old.bundle, ""
		replica.record(start.Add(-time.Hour), stored)
		server.record(start.Add(-time.Hour), stored)
		for s.clock = start; s.clock.Before(start.Add(75 * time.Second)); s.clock = s.clock.Add(time.Second / 2) {
			k.now = func() time.Time { return s.clock }
			if !s.clock.Before(seen) {
				s.latest, s.former = fresh.leaf, old.leaf
			}
			if !s.clock.Before(writes) {
				wanted := fresh.bundle
				if from := retiredCAs(configurationTrusting(stored), fresh.bundle); k.remainingOverlap(from) > 0 {
					wanted += from
				}
				if wanted != stored {
					stored = wanted
					replica.record(s.clock, stored)
					server.record(s.clock, stored)
				}
			}
			if word := replica.bundleAt(s.clock); word != view {
				s.observeTrusted(configurationTrusting(word))
				view = word
			}
			if err := connect(s.current(), server.bundleAt(s.clock), s.clock); err != nil {
				t.Fatalf("after %s: %v", s.clock.Sub(start), err)
			}
		}
		if stored != fresh.bundle || s.current() != fresh.leaf {
			t.Fatal("the former CA is still there")
		}
	})
}

// newCachedVerifier verifies each pair of a certificate and a bundle once: signatures are most of the cost of the property test, and
// nothing expires within it.
func newCachedVerifier() func(shown *tls.Certificate, bundle string, now time.Time) error {
	type pair struct {
		shown  *tls.Certificate
		bundle string
	}
	verdicts := map[pair]error{}
	return func(shown *tls.Certificate, bundle string, now time.Time) error {
		verdict, known := verdicts[pair{shown, bundle}]
		if !known {
			verdict = verify(shown, bundle, now)
			verdicts[pair{shown, bundle}] = verdict
		}
		return verdict
	}
}

func verify(shown *tls.Certificate, bundle string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	_, err := shown.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
	return err
}

func TestACAIsTrustedForAWhileAfterItIsGone(t *testing.T) {
	old, fresh := newTestCA(t), newTestCA(t)
	d := newBundleHarness(configurationTrusting(old.bundle))
	now := start
	d.now = func() time.Time { return now }
	for _, step := range []struct {
		reason  string
		after   time.Duration
		bundle  string
		trusted int
		patches int
		again   time.Duration
	}{
		{"nothing changes", 0, old.bundle, 1, 0, 0},
		{"what is stored is unknown", 0, "", 1, 0, 0},
		{"the new one comes first", 0, fresh.bundle, 2, 1, caOverlapPeriod},
		{"and is left alone", caOverlapPeriod / 2, fresh.bundle, 2, 1, caOverlapPeriod / 2},
		{"then the old one goes", caOverlapPeriod, fresh.bundle, 1, 2, 0},
		{"and does not come back", caOverlapPeriod, fresh.bundle, 1, 2, 0},
	} {
		d.bundle, now = step.bundle, start.Add(step.after)
		result, err := d.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		found := &admissionv1.MutatingWebhookConfiguration{}
		if err := d.client.Get(t.Context(), client.ObjectKeyFromObject(configuration()), found); err != nil {
			t.Fatal(err)
		}
		if got := len(commonCAs(found)); got != step.trusted || d.patches != step.patches || result.RequeueAfter != step.again {
			t.Errorf("%s: %d trusted, %d patches, again in %s", step.reason, got, d.patches, result.RequeueAfter)
		}
		if text := string(found.Webhooks[0].ClientConfig.CABundle); strings.Count(text, cert.CertificateBlockType) != 2*step.trusted {
			t.Errorf("%s: %s", step.reason, text)
		}
	}
}
