// Package certs maintains the CA by which agents verify the operator, and the operator's certificate. Both are in one Secret: the
// leader writes it, every replica reads it, and ConfigMaps carry its public part: those of swarms, and one beside the Secret. Replicas
// authenticate each other with the same certificate: only those with access to the Secret have its key.
//
// It promises:
//   - What is stored follows from the former content, the time and the names: Next is the whole policy. It uses randomness only to
//     create keys.
//   - A certificate is shown only when its CA has been published for the overlap, so that every agent has had time to receive it; and
//     a CA stays published while anything it signed may still be shown. So a rotation breaks no connection.
//   - Unreadable content is replaced, as if there were none. This is also how to replace a stolen key: delete the Secret.
//
// It never logs the content of the Secret, never discloses a key, and never writes a key on a replica that does not lead. An
// annotation of the Secret has the newest term of a leader, which a replica claims before it leads.
package certs

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// SecretName is the name of the Secret in the operator's own namespace. It is the only Secret that the operator ever reads.
const SecretName = "swarm-operator-link"

// The keys in the Secret.
const (
	bundleKey  = "ca.crt"   // the CAs that agents trust: the one that signs, then those that will or did
	signerKey  = "ca.key"   // of the CA that signs
	nextKey    = "next.key" // of the CA that will sign next, while it is being published
	servingKey = "tls.crt"
	privateKey = "tls.key"
	termKey    = "term.key" // proves terms to later leaders; no rotation replaces it
)

// Data is the content of the Secret.
type Data = map[string][]byte

// Lifetimes are periods of validity. Everything is renewed after two thirds of its lifetime.
type Lifetimes struct {
	CA      time.Duration
	Serving time.Duration
	// Overlap is how long a CA is published before it signs: as long as a bundle may take to reach the last agent.
	Overlap time.Duration
}

// DefaultLifetimes returns the default lifetimes. The kubelet updates ConfigMaps in pods within two minutes; the overlap is a week because
// it costs nothing, and a swarm may be paused or its namespace in trouble.
func DefaultLifetimes() Lifetimes {
	const day = 24 * time.Hour
	return Lifetimes{CA: 3650 * day, Serving: 90 * day, Overlap: 7 * day}
}

// Next returns what should be stored from now on, for a server with these names. An unchanged result has the same bytes.
func (l Lifetimes) Next(stored Data, now time.Time, names []string) (desired Data, changed bool, err error) {
	s := parseState(stored)
	if s.termKey == nil {
		s.termKey = newTermKey()
	}
	l.promote(&s, now)
	if err := l.ensureCA(&s, now); err != nil {
		return nil, false, err
	}
	l.dropRetired(&s, now)
	if err := l.createNext(&s, now); err != nil {
		return nil, false, err
	}
	if err := l.renewServing(&s, now, names); err != nil {
		return nil, false, err
	}
	if desired, err = s.encode(); err != nil {
		return nil, false, err
	}
	return desired, !maps.EqualFunc(stored, desired, bytes.Equal), nil
}

// Due returns when Next will return something else for what it has returned.
func (l Lifetimes) Due(stored Data) time.Time {
	s := parseState(stored)
	due := []time.Time{s.serving.renewAt(), s.current.renewAt()}
	if s.next.isComplete() {
		due[1] = l.signsFrom(s.next)
	}
	if len(s.retired) > 0 {
		due = append(due, l.retiredUntil(s.current))
	}
	return slices.MinFunc(due, time.Time.Compare)
}

// signsFrom is when every agent has had time to receive a CA.
func (l Lifetimes) signsFrom(ca keyPair) time.Time { return ca.createdAt().Add(l.Overlap) }

// retiredUntil is when nothing signed before this CA can be in use: the last certificate of its predecessor has expired.
func (l Lifetimes) retiredUntil(ca keyPair) time.Time { return l.signsFrom(ca).Add(l.Serving) }

// promote lets the next CA sign once it has been published for the overlap, or at once if no other CA can.
func (l Lifetimes) promote(s *state, now time.Time) {
	if !s.next.isComplete() || s.current.isValid(now) && now.Before(l.signsFrom(s.next)) {
		return
	}
	if s.current.isComplete() {
		s.retired = append(s.retired, s.current.certificate)
	}
	s.current, s.next = s.next, keyPair{}
}

// ensureCA creates a CA if none can sign. It drops all other content, as its origin is unknown.
func (l Lifetimes) ensureCA(s *state, now time.Time) (err error) {
	if s.current.isValid(now) {
		return nil
	}
	*s = state{termKey: s.termKey}
	s.current, err = newCA(now, l.CA)
	return err
}

// createNext creates the next CA when the current one is due for renewal.
func (l Lifetimes) createNext(s *state, now time.Time) (err error) {
	if s.next.isComplete() || now.Before(s.current.renewAt()) {
		return nil
	}
	s.next, err = newCA(now, l.CA)
	return err
}

// dropRetired removes CAs that are no longer needed from the bundle.
func (l Lifetimes) dropRetired(s *state, now time.Time) {
	if !now.Before(l.retiredUntil(s.current)) {
		s.retired = nil
	}
}

// renewServing creates a new serving certificate when the old one is due for renewal, is of another CA, has other names, or is from before
// replicas authenticated to each other with it.
func (l Lifetimes) renewServing(s *state, now time.Time, names []string) (err error) {
	hosts := normalizeNames(names)
	current := s.serving.isValid(now) && now.Before(s.serving.renewAt())
	if current && s.serving.isSignedBy(s.current) && slices.Equal(s.serving.names(), hosts) && slices.Equal(s.serving.certificate.ExtKeyUsage,
		extKeyUsages) {
		return nil
	}
	s.serving, err = s.current.sign(now, l.Serving, hosts)
	return err
}
