package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

const (
	// every is the pause between two pods of a stream.
	every = time.Second / 10
	// glance is that between two looks at a replica.
	glance = time.Second / 4
	// some is how many pods are asked for between two steps.
	some = 20
)

// A Stream asks for ten pods a second, none of which is created, and remembers those that came back without a place. It also checks
// repeatedly what each replica shows: would the API server accept it on a new connection?
type Stream struct {
	gate  Gate
	ended context.CancelFunc
	going sync.WaitGroup

	lock     sync.Mutex
	asked    int
	slowest  time.Duration
	unplaced []string
	unknown  []string // replicas that showed what the API server could not know
}

// Flow begins a stream of pods of a Deployment that stands already, until the spec ends or it is judged.
func (g Gate) Flow(ctx context.Context, of *appsv1.Deployment, doors []string) *Stream {
	ctx, ended := context.WithCancel(context.WithoutCancel(ctx))
	s := &Stream{gate: g, ended: ended}
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

func (s *Stream) ask(ctx context.Context, of *appsv1.Deployment) {
	began := time.Now()
	placed, err := s.gate.Admits(ctx, of)
	took := time.Since(began)
	if ctx.Err() != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.asked++
	s.slowest = max(s.slowest, took)
	if !placed || err != nil {
		s.unplaced = append(s.unplaced, fmt.Sprintf("asked at %s for %s: %v", began.Format("05.000"), took.Round(time.Millisecond), err))
	}
}

func (s *Stream) look(ctx context.Context, door string) {
	bundle, err := s.gate.Trusted(ctx)
	if err != nil {
		return
	}
	if leaf, err := Shown(ctx, door, bundle); leaf != nil && err != nil {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.unknown = append(s.unknown, fmt.Sprintf("%s at %s: %v", door, time.Now().Format("05.000"), err))
	}
}

// Await waits until some more pods were asked for.
func (s *Stream) Await(ctx context.Context) {
	GinkgoHelper()
	begun := s.soFar()
	Eventually(s.soFar).WithContext(ctx).Should(BeNumerically(">=", begun+some))
}

// soFar is how many pods were asked for.
func (s *Stream) soFar() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.asked
}

// stop ends the stream.
func (s *Stream) stop() {
	s.ended()
	s.going.Wait()
}

// Prove ends the stream, and checks that at least this many pods were asked for, and that every one was placed.
func (s *Stream) Prove(least int) {
	GinkgoHelper()
	s.stop()
	AddReportEntry("pods asked for", ReportEntryVisibilityAlways, s.asked)
	AddReportEntry("the slowest answer took", ReportEntryVisibilityAlways, s.slowest.Round(time.Millisecond).String())
	Expect(s.asked).To(BeNumerically(">=", least))
	Expect(s.unplaced).To(BeEmpty())
	Expect(s.unknown).To(BeEmpty(), "what replicas showed was known to the API server at any time")
}
