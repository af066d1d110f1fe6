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

// uses are what the certificate is good for: agents and the API server know the operator by it, and so do replicas that it calls.
var uses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// newCA makes a CA. Its name tells it from the one before, for people and for libraries that look a CA up by its name.
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

// sign makes a serving certificate, which cannot outlive its CA.
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

// issue makes a key and has its certificate signed, by itself when there is no CA. The serial number is drawn by x509.
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

// tidy is the names in one spelling and one order, each once.
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
