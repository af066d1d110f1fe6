// Package network gives each cluster an address range, interfaces and routes of its own.
//
// Every real node has a network namespace, joined to the others by one bridge on the host. A node has routes only to the
// cluster's own ranges, and the host's routes to those ranges end at the bridge, so no packet of a cluster ever leaves the machine.
package network

import "net/netip"

// Plan is how one cluster divides its range, 10.<number>.0.0/16.
type Plan struct {
	Number int    `json:"number"`
	Bridge string `json:"bridge"` // the interface that stands for the range; empty when the user may make none
}

// Bridge is the name of a cluster's interface. It follows from the cluster's id alone, so that what a crash left can be found.
func Bridge(id string) string { return "dc-" + id }

const (
	firstNumber = 150
	numbers     = 100
	// MostNodes is how many real nodes the plan has room for.
	MostNodes = 32
)

// Range holds every address of the cluster.
func (p Plan) Range() netip.Prefix { return p.prefix(0, 16) }

// Services is the range of Service addresses. Without an interface it lies on the loopback: what is sent there dies there.
func (p Plan) Services() netip.Prefix {
	if p.Bridge == "" {
		return netip.MustParsePrefix("127.240.0.0/20")
	}
	return p.prefix(240, 20)
}

// Pods is the range of all pod addresses.
func (p Plan) Pods() netip.Prefix { return p.prefix(64, 18) }

// Host is the machine's own address on the bridge: there pods and nodes find the API server and the DNS server.
func (p Plan) Host() netip.Addr { return p.address(0, 1) }

// API is the Service address of the API server.
func (p Plan) API() netip.Addr { return p.Services().Addr().Next() }

// SimulatedPods is the range of the addresses in the status of simulated pods; nothing listens there.
func (p Plan) SimulatedPods() netip.Prefix { return p.prefix(128, 18) }

// DNS is the Service address of the DNS server.
func (p Plan) DNS() netip.Addr { return p.address(240, 10) }

// Node is the address of real node n, counted from 1.
func (p Plan) Node(n int) netip.Addr { return p.address(0, byte(10+n)) }

// NodePods is the pod range of real node n.
func (p Plan) NodePods(n int) netip.Prefix { return p.prefix(byte(64+n), 24) }

func (p Plan) address(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(p.Number), third, fourth})
}

func (p Plan) prefix(third byte, bits int) netip.Prefix {
	return netip.PrefixFrom(p.address(third, 0), bits)
}

// Unclaimed is the plan of a cluster that may make no interface.
func Unclaimed() Plan { return Plan{Number: firstNumber - 1} }
