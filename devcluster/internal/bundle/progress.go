package bundle

import (
	"fmt"
	"io"
	"time"
)

// progress tells every few seconds how far a build is. Packages that the build cache has already are never named by the
// compiler, so the count is a lower bound and the time left an upper one.
type progress struct {
	out   io.Writer
	total int
	count int
	began time.Time
	said  time.Time
}

const every = 10 * time.Second

func (p *progress) compiled() {
	p.count++
	if time.Since(p.said) < every {
		return
	}
	p.said = time.Now()
	spent := time.Since(p.began)
	if spent < every {
		return
	}
	left := spent * time.Duration(p.total-p.count) / time.Duration(p.count)
	fmt.Fprintf(p.out, "  compiled %4d of at most %d packages in %s, at most %s to go\n", p.count, p.total, spent.Round(time.Second), left.Round(10*time.Second))
}

func (p *progress) done() {
	fmt.Fprintf(p.out, "  Kubernetes is built: %d packages compiled in %s\n", p.count, time.Since(p.began).Round(time.Second))
}
