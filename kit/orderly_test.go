package kit

import (
	"errors"
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
