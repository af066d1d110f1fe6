// Package authority keeps the CA that agents know the operator by, and the certificate that the operator shows them. Both are in one
// Secret: the leader writes it, every replica reads it, and ConfigMaps carry the part that is public: those of swarms, and one beside the
// Secret. Replicas know each other by the same certificate: who shows it has read the Secret.
//
// It promises:
//   - What is to be stored follows from what is stored, from the time and from the names: Next is the whole policy. Where keys are
//     made it draws randomness, nowhere else.
//   - A certificate is shown only when its CA has been published for the overlap, so that every agent has had the time to learn of it;
//     and a CA stays published while anything it signed may still be shown. So a rotation breaks no connection.
//   - What cannot be read is replaced, as if nothing had been there. That is also the way out of a stolen key: delete the Secret.
//
// It never logs what is in the Secret, it never lets a key leave it, and it never writes a key on a replica that does not lead. An annotation of the
// Secret has the newest term of a leader, which a replica claims before it leads.
package authority

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// SecretName is the Secret's, in the operator's own namespace. It is the only Secret that the operator ever reads.
const SecretName = "swarm-operator-link"

// The keys in the Secret.
const (
	bundleKey  = "ca.crt"   // whom agents trust: the CA that signs, then those that will or did
	signerKey  = "ca.key"   // of the CA that signs
	nextKey    = "next.key" // of the CA that will, while it is being made known
	servingKey = "tls.crt"
	privateKey = "tls.key"
	termKey    = "term.key" // proves terms to later leaders; no rotation replaces it
)

// Data is what the Secret holds.
type Data = map[string][]byte

// Lifetimes are how long things are good for. Each is renewed when two thirds of its time are over.
type Lifetimes struct {
	CA      time.Duration
	Serving time.Duration
	// Overlap is how long a CA is published before it signs: as long as a bundle may take to reach the last agent.
	Overlap time.Duration
}

// Standard lifetimes. The kubelet brings a changed ConfigMap to its pods within two minutes; the overlap is a week because it costs
// nothing, and a swarm may be paused or its namespace in trouble.
func Standard() Lifetimes {
	const day = 24 * time.Hour
	return Lifetimes{CA: 3650 * day, Serving: 90 * day, Overlap: 7 * day}
}

// Next is what should be stored from now on, for a server of these names. An unchanged answer has the same bytes.
func (l Lifetimes) Next(stored Data, now time.Time, names []string) (wanted Data, changed bool, err error) {
	s := read(stored)
	if s.termKey == nil {
		s.termKey = newTermKey()
	}
	l.promote(&s, now)
	if err := l.begin(&s, now); err != nil {
		return nil, false, err
	}
	l.forget(&s, now)
	if err := l.announce(&s, now); err != nil {
		return nil, false, err
	}
	if err := l.certify(&s, now, names); err != nil {
		return nil, false, err
	}
	if wanted, err = s.data(); err != nil {
		return nil, false, err
	}
	return wanted, !maps.EqualFunc(stored, wanted, bytes.Equal), nil
}

// Due is when Next will answer something else, if nobody touches what it has answered.
func (l Lifetimes) Due(stored Data) time.Time {
	s := read(stored)
	due := []time.Time{s.serving.ageing(), s.current.ageing()}
	if s.next.whole() {
		due[1] = l.signsFrom(s.next)
	}
	if len(s.retired) > 0 {
		due = append(due, l.settled(s.current))
	}
	return slices.MinFunc(due, time.Time.Compare)
}

// signsFrom is when everybody has had the time to learn of a CA.
func (l Lifetimes) signsFrom(ca pair) time.Time { return ca.made().Add(l.Overlap) }

// settled is when nothing from before this CA can be in use: its predecessor signed until this one did, and not for longer than that.
func (l Lifetimes) settled(ca pair) time.Time { return l.signsFrom(ca).Add(l.Serving) }

// promote lets the next CA sign when it has been published for the overlap; at once when there is no other that could.
func (l Lifetimes) promote(s *state, now time.Time) {
	if !s.next.whole() || s.current.valid(now) && now.Before(l.signsFrom(s.next)) {
		return
	}
	if s.current.whole() {
		s.retired = append(s.retired, s.current.certificate)
	}
	s.current, s.next = s.next, pair{}
}

// begin makes a CA where there is none that could sign. Whatever else there was is forgotten: nobody knows who made it.
func (l Lifetimes) begin(s *state, now time.Time) (err error) {
	if s.current.valid(now) {
		return nil
	}
	*s = state{termKey: s.termKey}
	s.current, err = newCA(now, l.CA)
	return err
}

// announce makes the next CA when the one that signs grows old.
func (l Lifetimes) announce(s *state, now time.Time) (err error) {
	if s.next.whole() || now.Before(s.current.ageing()) {
		return nil
	}
	s.next, err = newCA(now, l.CA)
	return err
}

// forget takes CAs out of the bundle that nobody needs any more.
func (l Lifetimes) forget(s *state, now time.Time) {
	if !now.Before(l.settled(s.current)) {
		s.retired = nil
	}
}

// certify makes a new serving certificate when the old one grows old, is another CA's, has other names, or is from before replicas called
// each other with it.
func (l Lifetimes) certify(s *state, now time.Time, names []string) (err error) {
	wanted := tidy(names)
	young := s.serving.valid(now) && now.Before(s.serving.ageing())
	if young && s.serving.signedBy(s.current) && slices.Equal(s.serving.names(), wanted) && slices.Equal(s.serving.certificate.ExtKeyUsage, uses) {
		return nil
	}
	s.serving, err = s.current.sign(now, l.Serving, wanted)
	return err
}
