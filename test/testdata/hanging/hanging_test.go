// Package hanging is a suite in which a spec never ends and ignores its context. The tests of tools/suites run it.
package hanging

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestHanging(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "A suite that hangs")
}

var _ = It("passes before the suite hangs", func() {})

var _ = It("waits for an answer that never comes", func(SpecContext) { waitForever() }, GracePeriod(100*time.Millisecond))

func waitForever() { <-make(chan struct{}) }
