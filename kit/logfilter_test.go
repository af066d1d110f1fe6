package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestGivingTheLeaseBackIsNoError(t *testing.T) {
	var logged []string
	logger := withLogFilter(funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	for _, log := range []func(error, string, ...any){logger.Error, logger.WithName("n").Error, logger.WithValues("k", "v").Error} {
		log(errors.New("leader election lost"), "error received after stop sequence was engaged")
		log(errors.New("something else"), "error received after stop sequence was engaged")
		log(errors.New("leader election lost"), "problem running manager")
	}
	if len(logged) != 6 || strings.Contains(logged[0], "lost") {
		t.Errorf("said %q", logged)
	}
}

func TestRequestThatItsCallerHasCancelledIsNoError(t *testing.T) {
	var logged []string
	logger := withLogFilter(funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	const message = "Unexpected error when reading response body"
	logger.Error(fmt.Errorf("read: %w", context.Canceled), message)
	if len(logged) > 0 {
		t.Errorf("said %q", logged)
	}
	logger.Error(io.ErrUnexpectedEOF, message)
	logger.Error(context.Canceled, "something else")
	if len(logged) != 2 {
		t.Errorf("said %q", logged)
	}
}

func TestLeaseThatIsLeftToExpireIsNoError(t *testing.T) {
	var logged []string
	logger := withLogFilter(funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	logger.Error(errFormerLeader, "Failed to release lease", "lock", "ns/name")
	if len(logged) != 1 || !strings.Contains(logged[0],
		`"level"=0 "msg"="not releasing the lease" "lock"="ns/name" "reason"="a former leader may still act`) {
		t.Errorf("said %q", logged)
	}
	logger.Error(ErrNotLeading, "Failed to release lease")
	if len(logged) != 2 || !strings.Contains(logged[1], `"error"`) {
		t.Errorf("said %q", logged)
	}
}

func TestLosingARaceForTheLeaseIsNoError(t *testing.T) {
	exists := fmt.Errorf("create: %w", apierrors.NewAlreadyExists(schema.GroupResource{Resource: "leases"}, "name"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "name", errors.New("changed"))
	for _, c := range []struct {
		err     error
		message string
		isError bool
	}{
		{exists, "Error initially creating lease lock", false},
		{conflict, "Failed to update lease", false},
		{conflict, "Error initially creating lease lock", true},
		{exists, "Failed to update lease", true},
		{exists, "Reconciler error", true},
		{io.ErrUnexpectedEOF, "Failed to update lease", true},
	} {
		var logged []string
		withLogFilter(funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})).Error(c.err, c.message, "lock",
			"ns/name")
		if len(logged) != 1 || strings.Contains(logged[0], `"error"`) != c.isError || !strings.Contains(logged[0], "ns/name") {
			t.Errorf("%s, %v: said %q", c.message, c.err, logged)
		}
	}
}
