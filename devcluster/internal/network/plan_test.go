package network

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestRangesOfAPlanDoNotMeet(t *testing.T) {
	plan := Plan{Number: 200, Bridge: "dc-test"}
	ranges := map[string]netip.Prefix{
		"host": netip.PrefixFrom(plan.Host(), 24).Masked(), "services": plan.Services(),
		"pods": plan.Pods(), "simulated pods": plan.SimulatedPods(),
	}
	for name, one := range ranges {
		if !plan.Range().Contains(one.Addr()) || one.Bits() < plan.Range().Bits() {
			t.Errorf("%s: %s lies outside of %s", name, one, plan.Range())
		}
		for other, two := range ranges {
			if name < other && one.Overlaps(two) {
				t.Errorf("%s %s meets %s %s", name, one, other, two)
			}
		}
	}
}

func TestEveryNodeHasItsOwnAddresses(t *testing.T) {
	plan := Plan{Number: 200, Bridge: "dc-test"}
	seen := map[string]int{}
	for n := 1; n <= MostNodes; n++ {
		for _, own := range []string{plan.Node(n).String(), plan.NodePods(n).String()} {
			if other, taken := seen[own]; taken {
				t.Errorf("nodes %d and %d both have %s", other, n, own)
			}
			seen[own] = n
		}
		if pods := plan.NodePods(n); !plan.Pods().Contains(pods.Addr()) {
			t.Errorf("the pods of node %d, %s, lie outside of %s", n, pods, plan.Pods())
		}
	}
}

func TestServicesWithoutInterfaceStayOnTheLoopback(t *testing.T) {
	for _, address := range []netip.Addr{Unclaimed().Services().Addr(), Unclaimed().API()} {
		if !address.IsLoopback() {
			t.Errorf("%s could leave the machine", address)
		}
	}
}

func TestOverlaps(t *testing.T) {
	wanted := netip.MustParsePrefix("10.150.0.0/16")
	for taken, want := range map[string]bool{"10.150.64.0/24": true, "10.0.0.0/8": true, "10.151.0.0/16": false, "192.168.0.0/16": false} {
		t.Run(fmt.Sprint(taken), func(t *testing.T) {
			if got := overlaps(wanted, []netip.Prefix{netip.MustParsePrefix(taken)}); got != want {
				t.Errorf("got %t, want %t", got, want)
			}
		})
	}
}
