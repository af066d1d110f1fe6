package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

func TestGivingTheLeaseBackIsNoError(t *testing.T) {
	var said []string
	logger := quietly(funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{}))
	for _, log := range []func(error, string, ...any){logger.Error, logger.WithName("n").Error, logger.WithValues("k", "v").Error} {
		log(errors.New("leader election lost"), "error received after stop sequence was engaged")
		log(errors.New("something else"), "error received after stop sequence was engaged")
		log(errors.New("leader election lost"), "problem running manager")
	}
	if len(said) != 6 || strings.Contains(said[0], "lost") {
		t.Errorf("said %q", said)
	}
}

func TestRequestThatItsCallerHasCancelledIsNoError(t *testing.T) {
	var said []string
	logger := quietly(funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{}))
	const message = "Unexpected error when reading response body"
	logger.Error(fmt.Errorf("read: %w", context.Canceled), message)
	if len(said) > 0 {
		t.Errorf("said %q", said)
	}
	logger.Error(io.ErrUnexpectedEOF, message)
	logger.Error(context.Canceled, "something else")
	if len(said) != 2 {
		t.Errorf("said %q", said)
	}
}

func TestLeaseThatIsLeftToExpireIsNoError(t *testing.T) {
	var said []string
	logger := quietly(funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{}))
	logger.Error(errFormerLeader, "Failed to release lease", "lock", "ns/name")
	if len(said) != 1 || !strings.Contains(said[0], `"level"=0 "msg"="Not releasing the lease" "lock"="ns/name" "reason"="a former leader may still act`) {
		t.Errorf("said %q", said)
	}
	logger.Error(ErrNotLeading, "Failed to release lease")
	if len(said) != 2 || !strings.Contains(said[1], `"error"`) {
		t.Errorf("said %q", said)
	}
}
