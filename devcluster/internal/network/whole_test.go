package network

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

func TestListIsAskedForAgainWhileItChanges(t *testing.T) {
	tries := 0
	found, err := whole(func() ([]string, error) {
		if tries++; tries < 3 {
			return []string{"half"}, nl.ErrDumpInterrupted
		}
		return []string{"all", "of it"}, nil
	})
	if err != nil || len(found) != 2 || tries != 3 {
		t.Errorf("got %v, %v after %d tries", found, err, tries)
	}
}

func TestOtherFailuresAreTold(t *testing.T) {
	refused, tries := errors.New("refused"), 0
	_, err := whole(func() ([]string, error) { tries++; return nil, refused })
	if !errors.Is(err, refused) || tries != 1 {
		t.Errorf("got %v after %d tries", err, tries)
	}
}
