// Package run tests `make run`: the operator from source, as a process beside a control plane with simulated nodes, does everything that an
// installed one does, and leaves nothing behind.
package run

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

func TestRun(t *testing.T) {
	testcluster.PrepareIntegration(t, time.Minute, 50*time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "make run")
}
