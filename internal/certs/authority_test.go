package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"pgregory.net/rapid"

	_ "github.com/swarm-io/swarm-operator/internal/testkit/property" // a fixed seed
)

const serverName = "swarm-operator-link.swarm-system.svc"

var (
	testNames = []string{serverName, "10.0.0.7", "fd00::7"}
	testStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	// The proportions of the defaults, short enough for many rotations.
	testLifetimes = Lifetimes{CA: 300 * time.Hour, Serving: 30 * time.Hour, Overlap: 5 * time.Hour}
)

// fataler is what testing and rapid have in common.
type fataler interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

func mustNext(t fataler, lifetimes Lifetimes, stored Data, now time.Time) Data {
	t.Helper()
	wanted, changed, err := lifetimes.Next(stored, now, testNames)
	if err != nil {
		t.Fatalf("at %s: %v", now, err)
	}
	if changed == maps.EqualFunc(stored, wanted, bytes.Equal) {
		t.Fatalf("at %s: changed is %t", now, changed)
	}
	return wanted
}

// verify verifies as an agent would, with only a bundle.
func verify(certificate *x509.Certificate, bundle []byte, now time.Time, name string) error {
	return verifyAs(x509.ExtKeyUsageServerAuth, certificate, x509.VerifyOptions{Roots: pool(bundle), CurrentTime: now, DNSName: name})
}

// verifyAs verifies a certificate for one use, since x509 accepts any one of several.
func verifyAs(use x509.ExtKeyUsage, certificate *x509.Certificate, options x509.VerifyOptions) error {
	options.KeyUsages = []x509.ExtKeyUsage{use}
	_, err := certificate.Verify(options)
	return err
}

func pool(bundle []byte) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	return roots
}

func servingCertificate(t fataler, stored Data) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(stored[servingKey], stored[privateKey]); err != nil {
		t.Fatalf("serve: %v", err)
	}
	return parseCertificates(t, stored[servingKey])[0]
}

func parseCertificates(t fataler, text []byte) []*x509.Certificate {
	t.Helper()
	all, err := cert.ParseCertsPEM(text)
	if err != nil {
		t.Fatalf("read certificates: %v", err)
	}
	return all
}

func TestFirstCertificatesServeEveryName(t *testing.T) {
	stored := mustNext(t, DefaultLifetimes(), nil, testStart)
	for _, name := range testNames {
		if err := verify(servingCertificate(t, stored), stored[bundleKey], testStart, name); err != nil {
			t.Error(err)
		}
	}
	if err := verify(servingCertificate(t, stored), stored[bundleKey], testStart, "another.svc"); err == nil {
		t.Error("serves a name that was not requested")
	}
	if ca := parseCertificates(t, stored[bundleKey])[0]; !ca.NotAfter.Equal(testStart.AddDate(0, 0, 3650)) ||
		ca.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("CA until %s, %s", ca.NotAfter, ca.PublicKeyAlgorithm)
	}
}

func TestNothingChangesBeforeItIsDue(t *testing.T) {
	stored, now := Data(nil), testStart
	for range 200 {
		stored = mustNext(t, testLifetimes, stored, now)
		due := testLifetimes.Due(stored)
		if !due.After(now) {
			t.Fatalf("at %s: due at %s already", now, due)
		}
		if _, changed, _ := testLifetimes.Next(stored, due.Add(-time.Second), testNames); changed {
			t.Fatalf("changed a second before %s", due)
		}
		if _, changed, _ := testLifetimes.Next(stored, due, testNames); !changed {
			t.Fatalf("nothing to do at %s", due)
		}
		now = due
	}
}

func TestServingCertificateIsRenewed(t *testing.T) {
	stored := mustNext(t, testLifetimes, nil, testStart)
	for _, c := range []struct {
		reason string
		after  time.Duration
		names  []string
		want   bool
	}{
		{"young", 19 * time.Hour, testNames, false},
		{"the same names in another order and spelling", time.Hour,
			[]string{"FD00:0::7", "10.0.0.7", "Swarm-Operator-Link.swarm-system.svc", serverName}, false},
		{"two thirds of its life are over", 20 * time.Hour, testNames, true},
		{"one name more", time.Hour, append(slices.Clone(testNames), "10.0.0.8"), true},
		{"one name less", time.Hour, testNames[:2], true},
		{"made by a clock that was two hours ahead", -2 * time.Hour, testNames, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			wanted, _, err := testLifetimes.Next(stored, testStart.Add(c.after), c.names)
			if err != nil || bytes.Equal(wanted[servingKey], stored[servingKey]) == c.want {
				t.Errorf("renewed: %t, %v", !c.want, err)
			}
		})
	}
}

func TestReplicasKnowEachOtherByTheCertificate(t *testing.T) {
	stored := mustNext(t, testLifetimes, nil, testStart)
	if err := verifyAs(x509.ExtKeyUsageClientAuth, servingCertificate(t, stored),
		x509.VerifyOptions{Roots: pool(stored[bundleKey]), CurrentTime: testStart}); err != nil {
		t.Error(err)
	}
}

func TestCertificateFromBeforeReplicasCalledIsRenewed(t *testing.T) {
	whole := mustNext(t, testLifetimes, nil, testStart)
	s := parseState(whole)
	template := *s.serving.certificate
	template.SerialNumber, template.ExtKeyUsage = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	var err error
	if s.serving, err = issue(&template, s.current); err != nil {
		t.Fatal(err)
	}
	former, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	renewed := mustNext(t, testLifetimes, former, testStart.Add(time.Hour))
	if got := servingCertificate(t, renewed).ExtKeyUsage; !slices.Equal(got, extKeyUsages) {
		t.Errorf("good for %v", got)
	}
	if !bytes.Equal(renewed[signerKey], whole[signerKey]) || !bytes.Equal(renewed[bundleKey], whole[bundleKey]) {
		t.Error("agents have a new CA to learn for that")
	}
}

func TestRotationStepByStep(t *testing.T) {
	first := mustNext(t, testLifetimes, nil, testStart)
	old := parseCertificates(t, first[bundleKey])[0]
	stored := first
	var fresh *x509.Certificate
	for _, c := range []struct {
		reason string
		hour   int
		bundle []string
		signer string
	}{
		{"one CA", 199, []string{"old"}, "old"},
		{"both are published, the old one signs", 200, []string{"old", "new"}, "old"},
		{"until the overlap is over", 204, []string{"old", "new"}, "old"},
		{"then the new one does", 205, []string{"new", "old"}, "new"},
		{"what the old one signed is still good", 234, []string{"new", "old"}, "new"},
		{"and then it is not", 235, []string{"new"}, "new"},
	} {
		stored = mustNext(t, testLifetimes, stored, testStart.Add(time.Duration(c.hour)*time.Hour))
		bundle := parseCertificates(t, stored[bundleKey])
		if len(bundle) > 1 && fresh == nil {
			fresh = bundle[1]
		}
		published := map[string]*x509.Certificate{"old": old, "new": fresh}
		for n, name := range c.bundle {
			if len(bundle) != len(c.bundle) || !bundle[n].Equal(published[name]) {
				t.Errorf("%s: bundle of %d, want %v", c.reason, len(bundle), c.bundle)
			}
		}
		if err := servingCertificate(t, stored).CheckSignatureFrom(published[c.signer]); err != nil {
			t.Errorf("%s: not signed by the %s one: %v", c.reason, c.signer, err)
		}
		if (stored[nextKey] != nil) != (len(c.bundle) == 2 && c.bundle[0] == "old") {
			t.Errorf("%s: the next key is there: %t", c.reason, stored[nextKey] != nil)
		}
	}
}

// publication is what clients could see from some time on.
type publication struct {
	since       time.Time
	bundle      []byte
	certificate *x509.Certificate
}

// The central property: whatever bundle an agent may have, and whichever certificate a replica may still show, they match.
func TestEveryAgentCanAlwaysConnect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var history []publication
		stored, now := Data(nil), testStart
		for range rapid.IntRange(10, 40).Draw(t, "looks") {
			stored = mustNext(t, testLifetimes, stored, now)
			latest := publication{now, stored[bundleKey], servingCertificate(t, stored)}
			history = slices.DeleteFunc(append(history, latest), func(p publication) bool { return p.since.Before(now.Add(-40 * time.Hour)) })
			for n, former := range history {
				// Superseded for longer than the overlap: no agent has this bundle any more.
				forgotten := n+1 < len(history) && !history[n+1].since.After(now.Add(-testLifetimes.Overlap))
				if !forgotten {
					requireTrusted(t, "bundle", former.since, verify(latest.certificate, former.bundle, now, serverName))
				}
				if now.Before(former.certificate.NotAfter) {
					requireTrusted(t, "certificate", former.since, verify(former.certificate, latest.bundle, now, serverName))
				}
			}
			// The leader reconciles when it is due; it may be late, missing for a while, or reconcile without a reason.
			pause := time.Duration(rapid.IntRange(0, 8*3600).Draw(t, "pause")) * time.Second
			if rapid.Bool().Draw(t, "due") {
				now = testLifetimes.Due(stored)
			}
			now = now.Add(pause)
		}
	})
}

func requireTrusted(t fataler, what string, since time.Time, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("with the %s of %s: %v", what, since, err)
	}
}

func TestWhatIsBrokenIsReplaced(t *testing.T) {
	complete := mustNext(t, testLifetimes, nil, testStart)
	other := mustNext(t, testLifetimes, nil, testStart)
	rotating := mustNext(t, testLifetimes, complete, testStart.Add(200*time.Hour))
	for _, c := range []struct {
		reason   string
		from     Data
		key      string
		value    []byte
		at       time.Duration
		sameRoot bool
	}{
		{"nothing is broken", complete, "", nil, 0, true},
		{"no bundle", complete, bundleKey, nil, 0, false},
		{"a garbled bundle", complete, bundleKey, []byte("garbage"), 0, false},
		{"no key", complete, signerKey, nil, 0, false},
		{"another CA's key", complete, signerKey, other[signerKey], 0, false},
		{"another CA's certificate", complete, bundleKey, other[bundleKey], 0, false},
		{"a certificate where the CA should be", complete, bundleKey, complete[servingKey], 0, false},
		{"an expired CA", complete, "", nil, 300 * time.Hour, false},
		{"no serving certificate", complete, servingKey, nil, 0, true},
		{"another's serving key", complete, privateKey, other[privateKey], 0, true},
		{"a serving key that is garbage", complete, privateKey, []byte("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"), 0,
			true},
		{"something that is not ours", complete, "extra", []byte("extra"), 0, true},
		{"the next key, while both are published", rotating, nextKey, nil, 200 * time.Hour, true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			broken := maps.Clone(c.from)
			if c.key != "" {
				broken[c.key] = c.value
			}
			now := testStart.Add(c.at)
			repaired := mustNext(t, testLifetimes, broken, now)
			if err := verify(servingCertificate(t, repaired), repaired[bundleKey], now, serverName); err != nil {
				t.Error(err)
			}
			if same := bytes.Equal(repaired[signerKey], c.from[signerKey]); same != c.sameRoot {
				t.Errorf("the CA is the same: %t", same)
			}
			if again := mustNext(t, testLifetimes, repaired, now); !maps.EqualFunc(again, repaired, bytes.Equal) {
				t.Error("not settled by one repair")
			}
		})
	}
}

func TestNextCASignsAtOnceWhenTheOldOneCannot(t *testing.T) {
	rotating := mustNext(t, testLifetimes, mustNext(t, testLifetimes, nil, testStart), testStart.Add(299*time.Hour))
	for reason, broken := range map[string]Data{"expired": rotating, "lost": {bundleKey: rotating[bundleKey], nextKey: rotating[nextKey]}} {
		now := testStart.Add(300 * time.Hour)
		repaired := mustNext(t, testLifetimes, broken, now)
		if !bytes.Equal(repaired[signerKey], rotating[nextKey]) {
			t.Errorf("%s: agents know the next CA already, and yet it does not sign", reason)
		}
	}
}

func FuzzAnythingStoredBecomesWhole(f *testing.F) {
	whole, _, _ := testLifetimes.Next(nil, testStart, testNames)
	f.Add(whole[bundleKey], whole[signerKey], whole[nextKey], whole[servingKey], whole[privateKey])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("x"), []byte(nil), []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, bundle, signer, next, serving, key []byte) {
		stored := Data{bundleKey: bundle, signerKey: signer, nextKey: next, servingKey: serving, privateKey: key}
		wanted, _, err := testLifetimes.Next(stored, testStart, testNames)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(servingCertificate(t, wanted), wanted[bundleKey], testStart, serverName); err != nil {
			t.Error(err)
		}
	})
}
