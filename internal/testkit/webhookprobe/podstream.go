package webhookprobe

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
	// podInterval is the pause between two pods of a stream.
	podInterval = time.Second / 10
	// certificateCheckInterval is the interval between two checks of a replica.
	certificateCheckInterval = time.Second / 4
	// podsPerStep is how many pods are requested between two steps.
	podsPerStep = 20
)

// A PodStream requests ten pods a second as dry runs, and records those that were not placed. It also checks repeatedly whether the API
// server would accept the certificate of each replica on a new connection.
type PodStream struct {
	webhook Webhook
	cancel  context.CancelFunc
	running sync.WaitGroup

	lock              sync.Mutex
	requested         int
	slowest           time.Duration
	unplaced          []string
	certificateErrors []string // replicas with a certificate that the API server could not trust
}

// StartPodStream starts a stream of pods of an existing Deployment. It runs until the spec ends or ExpectAllPlaced is called.
func (g Webhook) StartPodStream(ctx context.Context, deployment *appsv1.Deployment, addresses []string) *PodStream {
	ctx, ended := context.WithCancel(context.WithoutCancel(ctx))
	s := &PodStream{webhook: g, cancel: ended}
	s.running.Go(func() {
		repeatEvery(ctx, podInterval, func() { s.running.Go(func() { s.requestPod(ctx, deployment) }) })
	})
	for _, door := range addresses {
		s.running.Go(func() {
			repeatEvery(ctx, certificateCheckInterval, func() { s.checkCertificate(ctx, door) })
		})
	}
	DeferCleanup(s.stop)
	return s
}

// repeatEvery calls a function periodically.
func repeatEvery(ctx context.Context, pause time.Duration, action func()) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			action()
		}
	}
}

func (s *PodStream) requestPod(ctx context.Context, deployment *appsv1.Deployment) {
	began := time.Now()
	placed, err := s.webhook.AdmitsPlaced(ctx, deployment)
	took := time.Since(began)
	if ctx.Err() != nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.requested++
	s.slowest = max(s.slowest, took)
	if !placed || err != nil {
		s.unplaced = append(s.unplaced, fmt.Sprintf("requested at %s for %s: %v", began.Format("05.000"), took.Round(time.Millisecond), err))
	}
}

func (s *PodStream) checkCertificate(ctx context.Context, address string) {
	bundle, err := s.webhook.TrustedCA(ctx)
	if err != nil {
		return
	}
	if leaf, err := ServedCertificate(ctx, address, bundle); leaf != nil && err != nil {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.certificateErrors = append(s.certificateErrors, fmt.Sprintf("%s at %s: %v", address, time.Now().Format("05.000"), err))
	}
}

// AwaitPods waits until some more pods were requested.
func (s *PodStream) AwaitPods(ctx context.Context) {
	GinkgoHelper()
	begun := s.requestCount()
	Eventually(s.requestCount).WithContext(ctx).Should(BeNumerically(">=", begun+podsPerStep))
}

// requestCount returns how many pods were requested.
func (s *PodStream) requestCount() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.requested
}

// stop ends the stream.
func (s *PodStream) stop() {
	s.cancel()
	s.running.Wait()
}

// ExpectAllPlaced ends the stream, and checks that at least this many pods were requested, and that all were placed.
func (s *PodStream) ExpectAllPlaced(minPods int) {
	GinkgoHelper()
	s.stop()
	AddReportEntry("pods asked for", ReportEntryVisibilityAlways, s.requested)
	AddReportEntry("the slowest answer took", ReportEntryVisibilityAlways, s.slowest.Round(time.Millisecond).String())
	Expect(s.requested).To(BeNumerically(">=", minPods))
	Expect(s.unplaced).To(BeEmpty())
	Expect(s.certificateErrors).To(BeEmpty(), "what replicas showed was known to the API server at any time")
}
