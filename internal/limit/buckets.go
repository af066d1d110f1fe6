package limit

import (
	"time"

	"golang.org/x/time/rate"
)

// Buckets limit the rates of many callers. They are not safe for concurrent use.
//
// A caller that is idle for as long as its bucket takes to fill is forgotten, and loses nothing. If there are too many callers, they
// are forgotten earlier.
type Buckets struct {
	perSecond         rate.Limit // of one caller
	burst, maxCallers int        // of one caller at once, and callers in each of the tables
	refill            time.Duration
	recent, previous  map[string]*rate.Limiter
	recentSince       time.Time // the table of recent callers
}

// NewBuckets allows each caller perSecond actions per second, and burst at once. It remembers at most 2*most callers.
func NewBuckets(perSecond float64, burst, maxCallers int) *Buckets {
	refill := time.Duration(float64(burst) / perSecond * float64(time.Second))
	return &Buckets{perSecond: rate.Limit(perSecond), burst: burst, maxCallers: maxCallers, refill: refill}
}

// Allow reports whether a caller may proceed, and then counts it.
func (b *Buckets) Allow(caller string, now time.Time) bool {
	if b.recent == nil || now.Sub(b.recentSince) > b.refill || len(b.recent) >= b.maxCallers {
		b.recent, b.previous, b.recentSince = map[string]*rate.Limiter{}, b.recent, now
	}
	bucket := b.recent[caller]
	if bucket == nil {
		bucket = b.previous[caller]
	}
	if bucket == nil {
		bucket = rate.NewLimiter(b.perSecond, b.burst)
	}
	b.recent[caller] = bucket
	return bucket.AllowN(now, 1)
}

// Len returns how many callers are remembered; one that is in both tables counts twice.
func (b *Buckets) Len() int { return len(b.recent) + len(b.previous) }
