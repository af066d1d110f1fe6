package certs

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

// clockSkew is how far a client's clock may be behind ours.
const clockSkew = time.Hour

// extKeyUsages are the key usages of the certificate: agents, the API server and other replicas verify the operator by it.
var extKeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// newCA creates a CA. Its name differs from that of the former one, for people and for libraries that look up a CA by name.
func newCA(now time.Time, life time.Duration) (keyPair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "swarm-operator-link CA " + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	ca, err := issue(template, keyPair{})
	if err != nil {
		return keyPair{}, fmt.Errorf("make CA: %w", err)
	}
	return ca, nil
}

// sign creates a serving certificate, which cannot outlive its CA.
func (p keyPair) sign(now time.Time, life time.Duration, names []string) (keyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: SecretName},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: extKeyUsages,
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
	serving, err := issue(template, p)
	if err != nil {
		return keyPair{}, fmt.Errorf("make serving certificate for %v: %w", names, err)
	}
	return serving, nil
}

// issue creates a key and has its certificate signed, by itself if there is no CA. The serial number comes from x509.
func issue(template *x509.Certificate, ca keyPair) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	parent, signer := ca.certificate, ca.key
	if !ca.isComplete() {
		parent, signer = template, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, err
	}
	certificate, err := x509.ParseCertificate(signed)
	return keyPair{certificate, key}, err
}

// normalizeNames normalizes, sorts and deduplicates names.
func normalizeNames(names []string) []string {
	normalized := make([]string, 0, len(names))
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		normalized = append(normalized, strings.ToLower(name))
	}
	slices.Sort(normalized)
	return slices.Compact(normalized)
}
