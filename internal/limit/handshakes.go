package limit

// Each place that a source may have allows so many connections a second, and so many at once. With the default of 64 places that is 256 a
// second and 512 at once: 2,000 agents behind one address connect within 8 s, which is less than what is left of a lease of 45 s after 20 s
// without a leader, even if their attempts in these 20 s have used up the burst. Fewer places than the default do not lower the rate.
const (
	fewestPlaces       = 64
	handshakesPerPlace = 4 // a second
	handshakeBurst     = 8 // for each place
)

// Handshakes bounds how many connections of one source are let in, however soon they are closed again: each may cost a TLS handshake. It is
// not safe for concurrent use.
type Handshakes struct{ *Buckets }

// NewHandshakes allows sources what so many places of each allow. It remembers at most twice as many sources as most says.
func NewHandshakes(perSource, most int) *Handshakes {
	places := max(perSource, fewestPlaces)
	return &Handshakes{NewBuckets(float64(handshakesPerPlace*places), handshakeBurst*places, most)}
}
