package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Claim takes the first range that no route of the machine touches, by making the bridge that stands for it. Callers
// must not claim at the same time.
func Claim(id string, realNodes int) (Plan, error) {
	taken, err := prefixes()
	if err != nil {
		return Plan{}, err
	}
	for number := firstNumber; number < firstNumber+numbers; number++ {
		plan := Plan{Number: number, Bridge: Bridge(id)}
		if !overlaps(plan.Range(), taken) {
			return plan, plan.build(realNodes)
		}
	}
	return Plan{}, fmt.Errorf("every range from 10.%d.0.0/16 to 10.%d.0.0/16 is in use: run `devcluster down` for clusters you no longer need",
		firstNumber, firstNumber+numbers-1)
}

// prefixes are all that the machine has an address in or a route to, except the default route.
func prefixes() ([]netip.Prefix, error) {
	routes, err := whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list the machine's routes: %w", err)
	}
	var taken []netip.Prefix
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		ones, _ := route.Dst.Mask.Size()
		if address, ok := netip.AddrFromSlice(route.Dst.IP.To4()); ok && ones > 0 {
			taken = append(taken, netip.PrefixFrom(address, ones))
		}
	}
	return taken, nil
}

func overlaps(wanted netip.Prefix, taken []netip.Prefix) bool {
	for _, prefix := range taken {
		if prefix.Overlaps(wanted) {
			return true
		}
	}
	return false
}

func (p Plan) build(realNodes int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = p.Bridge
	link := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make interface %s: %w", p.Bridge, err)
	}
	if err := netlink.AddrAdd(link, address(netip.PrefixFrom(p.Host(), 24))); err != nil {
		return fmt.Errorf("give interface %s its address: %w", p.Bridge, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set interface %s up: %w", p.Bridge, err)
	}
	for n := 1; n <= realNodes; n++ {
		if err := route(nil, link, p.NodePods(n), p.Node(n)); err != nil {
			return err
		}
	}
	// Until there is a node, or where there is none, Service addresses lead to the interface and no further.
	gateway := netip.Addr{}
	if realNodes > 0 {
		gateway = p.Node(1)
	}
	return route(nil, link, p.Services(), gateway)
}

// Attach joins the network namespace of a process to the bridge as real node n of this number of nodes.
func (p Plan) Attach(pid, n, nodes int) error {
	space, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("open the network of node %d: %w", n, err)
	}
	defer space.Close()
	inside, err := netlink.NewHandleAt(space)
	if err != nil {
		return fmt.Errorf("enter the network of node %d: %w", n, err)
	}
	defer inside.Close()
	if err := p.cable(space, n); err != nil {
		return err
	}
	if err := p.configure(inside, n, nodes); err != nil {
		return fmt.Errorf("configure the network of node %d: %w", n, err)
	}
	return nil
}

// cable lays a veth pair from the bridge into the namespace.
func (p Plan) cable(space netns.NsHandle, n int) error {
	master, err := netlink.LinkByName(p.Bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", p.Bridge, err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = fmt.Sprintf("%sn%d", p.Bridge, n)
	attributes.MasterIndex = master.Attrs().Index
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(space))}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("lay the cable to node %d: %w", n, err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return fmt.Errorf("set the cable to node %d up: %w", n, err)
	}
	return nil
}

// configure gives the node its address, the ways to the other nodes' pods, and a sink for Service addresses that
// kube-proxy does not know.
func (p Plan) configure(inside *netlink.Handle, n, nodes int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "services" // a bridge that leads nowhere: kernels without dummy interfaces have it, too
	if err := inside.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return fmt.Errorf("make the interface of the Service range: %w", err)
	}
	links := map[string]netlink.Link{}
	for _, name := range []string{"lo", "eth0", "services"} {
		link, err := inside.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", name, err)
		}
		if err := inside.LinkSetUp(link); err != nil {
			return fmt.Errorf("set interface %s up: %w", name, err)
		}
		links[name] = link
	}
	if err := inside.AddrAdd(links["eth0"], address(netip.PrefixFrom(p.Node(n), 24))); err != nil {
		return fmt.Errorf("give eth0 its address: %w", err)
	}
	if err := route(inside, links["services"], p.Services(), netip.Addr{}); err != nil {
		return err
	}
	for other := 1; other <= nodes; other++ {
		if other == n {
			continue
		}
		if err := route(inside, links["eth0"], p.NodePods(other), p.Node(other)); err != nil {
			return err
		}
	}
	return nil
}

// mostTries is how often a list is asked for that others change meanwhile.
const mostTries = 20

// whole retries a list that the kernel could not give in one piece, because interfaces came or went: those of other clusters do.
func whole[T any](list func() ([]T, error)) (found []T, err error) {
	for range mostTries {
		if found, err = list(); !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}

// Remove removes a cluster's bridge and the cables to its nodes, and with them all addresses and routes. The kernel would remove
// the cables, too, but only some time after the last process of the node.
func Remove(id string) error {
	links, err := whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, link := range links {
		name := link.Attrs().Name
		if !strings.HasPrefix(name, Bridge(id)) {
			continue
		}
		err := netlink.LinkDel(link)
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove interface %s: %w", name, err)
		}
	}
	return nil
}

func route(in *netlink.Handle, link netlink.Link, to netip.Prefix, via netip.Addr) error {
	way := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Scope: netlink.SCOPE_LINK}
	if via.IsValid() {
		way.Gw, way.Scope = net.IP(via.AsSlice()), netlink.SCOPE_UNIVERSE
	}
	add := netlink.RouteAdd
	if in != nil {
		add = in.RouteAdd
	}
	if err := add(way); err != nil {
		return fmt.Errorf("add the route to %s: %w", to, err)
	}
	return nil
}

func address(prefix netip.Prefix) *netlink.Addr { return &netlink.Addr{IPNet: ipNet(prefix)} }

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), 32)}
}
