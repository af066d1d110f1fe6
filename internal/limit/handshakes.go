package limit

import (
	"time"

	"golang.org/x/time/rate"
)

// Each place that a source may have allows so many connections a second, and so many at once. With the default of 64 places that is 256 a
// second and 512 at once: 2,000 agents behind one address connect within 8 s, which is less than what is left of a lease of 45 s after 20 s
// without a leader, even if their attempts in these 20 s have used up the burst. Fewer places than the default do not lower the rate.
const (
	fewestPlaces       = 64
	handshakesPerPlace = 4 // a second
	handshakeBurst     = 8 // for each place
	// handshakesRefill is how long a bucket takes to fill up again.
	handshakesRefill = handshakeBurst / handshakesPerPlace * time.Second
)

// Handshakes bounds how many connections of one source are let in, however soon they are closed again: each may cost a TLS handshake. It is
// not safe for concurrent use.
//
// A source that is not seen for as long as its bucket takes to fill is forgotten, and loses nothing by it. If there are too many
// sources, they are forgotten earlier.
type Handshakes struct {
	places, most   int // connections of one source, and sources in each of the tables
	recent, former map[string]*rate.Limiter
	began          time.Time // the table of recent sources
}

// NewHandshakes allows sources what so many places of each allow. It remembers at most twice as many sources as most says.
func NewHandshakes(perSource, most int) *Handshakes {
	return &Handshakes{places: max(perSource, fewestPlaces), most: most}
}

// Allow reports whether a connection of a source may be let in, and counts it then.
func (h *Handshakes) Allow(source string, now time.Time) bool {
	if h.recent == nil || now.Sub(h.began) > handshakesRefill || len(h.recent) >= h.most {
		h.recent, h.former, h.began = map[string]*rate.Limiter{}, h.recent, now
	}
	bucket := h.recent[source]
	if bucket == nil {
		bucket = h.former[source]
	}
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Limit(handshakesPerPlace*h.places), handshakeBurst*h.places)
	}
	h.recent[source] = bucket
	return bucket.AllowN(now, 1)
}
