package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// skew is how far a client's clock may be behind ours.
const skew = time.Hour

// uses are the key usages of the certificate: agents, the API server and other replicas verify the operator by it.
var uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// newCA creates a CA. Its name differs from that of the former one, for people and for libraries that look up a CA by name.
func newCA(now time.Time, life time.Duration) (pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "swarm-operator-link CA " + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	made, err := issue(template, pair{})
	if err != nil {
		return pair{}, fmt.Errorf("make CA: %w", err)
	}
	return made, nil
}

// sign creates a serving certificate, which cannot outlive its CA.
func (p pair) sign(now time.Time, life time.Duration, names []string) (pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: SecretName},
		NotBefore:   now.Add(-skew),
		NotAfter:    now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: uses,
	}
	if template.NotAfter.After(p.certificate.NotAfter) {
		template.NotAfter = p.certificate.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	made, err := issue(template, p)
	if err != nil {
		return pair{}, fmt.Errorf("make serving certificate for %v: %w", names, err)
	}
	return made, nil
}

// issue creates a key and has its certificate signed, by itself if there is no CA. The serial number comes from x509.
func issue(template *x509.Certificate, ca pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	parent, signer := ca.certificate, ca.key
	if !ca.whole() {
		parent, signer = template, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, err
	}
	certificate, err := x509.ParseCertificate(signed)
	return pair{certificate, key}, err
}

// tidy normalizes, sorts and deduplicates names.
func tidy(names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		all = append(all, strings.ToLower(name))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
