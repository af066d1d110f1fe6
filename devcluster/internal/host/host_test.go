package host

import (
	"errors"
	"slices"
	"testing"
)

func TestFreePortsAreDifferentAndNotTaken(t *testing.T) {
	// Nearly all are taken, so that a port would come twice if it could.
	var taken []int
	for port := firstPort + 200; port < firstPort+ports; port++ {
		taken = append(taken, port)
	}
	free, err := FreePorts(20, taken...)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(free)
	if len(slices.Compact(free)) != 20 || free[19] >= firstPort+200 {
		t.Errorf("got %v", free)
	}
}

func TestNameIsTakenOnce(t *testing.T) {
	release, err := Take(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(t.Name()); !errors.Is(err, ErrTaken) {
		t.Errorf("taken twice: %v", err)
	}
	release()
	again, err := Take(t.Name())
	if err != nil {
		t.Fatalf("not given back: %v", err)
	}
	again()
}
