package spread

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// every is the pause between two pods of a stream.
	every = time.Second / 10
	// glance is that between two looks at a replica.
	glance = time.Second / 4
)

// A stream asks for ten pods a second, none of which is made, and remembers those that came back without a place. Beside that it looks again
// and again at what each replica shows: would the API server take it, if it had to connect anew just now?
type stream struct {
	ended context.CancelFunc
	going sync.WaitGroup

	lock     sync.Mutex
	asked    int
	unplaced []string
	unknown  []string // replicas that showed what the API server could not know
}

// flowing begins a stream of pods of a Deployment that stands already, until it is stopped.
func flowing(ctx context.Context, of string, doors []string) *stream {
	ctx, ended := context.WithCancel(context.WithoutCancel(ctx))
	s := &stream{ended: ended}
	s.going.Go(func() {
		repeat(ctx, every, func() { s.going.Go(func() { s.ask(ctx, of) }) })
	})
	for _, door := range doors {
		s.going.Go(func() {
			repeat(ctx, glance, func() { s.look(ctx, door) })
		})
	}
	DeferCleanup(s.stop)
	return s
}

// repeat does something again and again.
func repeat(ctx context.Context, pause time.Duration, something func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			something()
		}
	}
}

func (s *stream) ask(ctx context.Context, of string) {
	began := time.Now()
	placed, err := admitted(ctx, of)
	if ctx.Err() != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.asked++
	if !placed || err != nil {
		s.unplaced = append(s.unplaced, fmt.Sprintf("asked at %s for %s: %v", began.Format("05.000"), time.Since(began).Round(time.Millisecond), err))
	}
}

func (s *stream) look(ctx context.Context, door string) {
	bundle, err := trusted(ctx)
	if err != nil {
		return
	}
	if leaf, err := shown(ctx, door, bundle); leaf != nil && err != nil {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.unknown = append(s.unknown, fmt.Sprintf("%s at %s: %v", door, time.Now().Format("05.000"), err))
	}
}

// stop ends the stream.
func (s *stream) stop() {
	s.ended()
	s.going.Wait()
}

// prove checks that every pod was given its place.
func (s *stream) prove(least int) {
	GinkgoHelper()
	s.stop()
	measured("pods asked for", s.asked)
	Expect(s.asked).To(BeNumerically(">=", least))
	Expect(s.unplaced).To(BeEmpty())
}

// soFar is how many pods were asked for.
func (s *stream) soFar() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.asked
}

var failOpen = regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{name="spread\.swarm\.io",.*\} (\S+)$`)

// ignored is how often the API server went on without an answer, by its own count.
func ignored(ctx context.Context) (count float64) {
	GinkgoHelper()
	text, err := cluster.Core.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, found := range failOpen.FindAllSubmatch(text, -1) {
		some, err := strconv.ParseFloat(string(found[1]), 64)
		Expect(err).NotTo(HaveOccurred())
		count += some
	}
	return count
}
