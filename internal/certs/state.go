package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// state is the parsed content of the Secret.
type state struct {
	current keyPair             // signs
	next    keyPair             // is published, and will sign
	retired []*x509.Certificate // no longer sign; what they signed may be in use
	serving keyPair
	termKey []byte // nil if there is none
}

// parseState parses as much as it can. Damaged parts count as missing.
func parseState(stored Data) state {
	var s state
	bundle, _ := cert.ParseCertsPEM(stored[bundleKey])
	signer, next := readKey(stored[signerKey]), readKey(stored[nextKey])
	for _, ca := range bundle {
		switch {
		case ca.IsCA && !s.current.isComplete() && isKeyOf(ca, signer):
			s.current = keyPair{ca, signer}
		case ca.IsCA && !s.next.isComplete() && isKeyOf(ca, next):
			s.next = keyPair{ca, next}
		default:
			s.retired = append(s.retired, ca)
		}
	}
	serving, _ := cert.ParseCertsPEM(stored[servingKey])
	if key := readKey(stored[privateKey]); len(serving) == 1 && isKeyOf(serving[0], key) {
		s.serving = keyPair{serving[0], key}
	}
	if key := stored[termKey]; len(key) == termKeyBytes {
		s.termKey = key
	}
	return s
}

// readKey accepts only keys of the kind that we create.
func readKey(text []byte) *ecdsa.PrivateKey {
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil
	}
	ecKey, _ := key.(*ecdsa.PrivateKey)
	return ecKey
}

// isKeyOf reports whether the key is that of the certificate.
func isKeyOf(certificate *x509.Certificate, key *ecdsa.PrivateKey) bool {
	return key != nil && key.PublicKey.Equal(certificate.PublicKey)
}

// encode encodes the state. The same state has the same bytes.
func (s state) encode() (Data, error) {
	all := Data{termKey: s.termKey}
	bundle := []*x509.Certificate{s.current.certificate}
	keys := map[string]*ecdsa.PrivateKey{signerKey: s.current.key, privateKey: s.serving.key}
	if s.next.isComplete() {
		bundle = append(bundle, s.next.certificate)
		keys[nextKey] = s.next.key
	}
	var err error
	if all[bundleKey], err = cert.EncodeCertificates(append(bundle, s.retired...)...); err != nil {
		return nil, fmt.Errorf("encode bundle: %w", err)
	}
	if all[servingKey], err = cert.EncodeCertificates(s.serving.certificate); err != nil {
		return nil, fmt.Errorf("encode serving certificate: %w", err)
	}
	for name, key := range keys {
		if all[name], err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
	}
	return all, nil
}

// A keyPair is a certificate with its key, or nothing.
type keyPair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func (p keyPair) isComplete() bool { return p.certificate != nil && p.key != nil }

// isValid reports whether the pair exists and is valid now. One from the future was created with a wrong clock.
func (p keyPair) isValid(now time.Time) bool {
	return p.isComplete() && !now.Before(p.certificate.NotBefore) && now.Before(p.certificate.NotAfter)
}

// createdAt returns when it was created; it is valid from a little earlier on.
func (p keyPair) createdAt() time.Time { return p.certificate.NotBefore.Add(clockSkew) }

// renewAt returns when two thirds of its lifetime are over.
func (p keyPair) renewAt() time.Time {
	return p.createdAt().Add(p.certificate.NotAfter.Sub(p.createdAt()) * 2 / 3)
}

func (p keyPair) isSignedBy(ca keyPair) bool {
	return p.certificate.CheckSignatureFrom(ca.certificate) == nil
}

// names returns all names of a certificate, in the order of normalizeNames.
func (p keyPair) names() []string {
	hosts := slices.Clone(p.certificate.DNSNames)
	for _, ip := range p.certificate.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return normalizeNames(hosts)
}
