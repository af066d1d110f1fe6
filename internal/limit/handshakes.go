package limit

// Each place that a source may have allows this many connections per second, and this many at once. The default of 64 places gives 256
// per second and 512 at once: 2,000 agents behind one address connect within 8 s, which is less than what is left of a lease of 45 s
// after 20 s without a leader, even if their attempts in these 20 s have used up the burst. Fewer places than the default do not lower
// the rate.
const (
	minConnectionsPerSource = 64
	handshakesPerConnection = 4 // a second
	handshakeBurst          = 8 // for each place
)

// Handshakes limits how many connections of one source are accepted, however soon they are closed: each may cost a TLS handshake. It
// is not safe for concurrent use.
type Handshakes struct{ *Buckets }

// NewHandshakes allows each source the rate of perSource places. It remembers at most 2*most sources.
func NewHandshakes(perSource, maxSources int) *Handshakes {
	connections := max(perSource, minConnectionsPerSource)
	return &Handshakes{NewBuckets(float64(handshakesPerConnection*connections), handshakeBurst*connections, maxSources)}
}
