package devcluster

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
)

// listener is a socket that accepts connections.
type listener struct {
	Protocol string
	Address  netip.AddrPort
	Args     []string // of the process that listens
}

func (l listener) String() string { return fmt.Sprintf("%s %s %.40s", l.Protocol, l.Address, l.Args) }

// listeners returns the cluster's listeners in the machine's own network; nodes and pods have their own networks.
func (c cluster) listeners() []listener {
	open := openSockets()
	ours := network("self")
	var listeners []listener
	for _, p := range c.processes() {
		if network(itoa(p.pid)) != ours {
			continue
		}
		descriptors, _ := filepath.Glob(filepath.Join("/proc", itoa(p.pid), "fd", "*"))
		for _, descriptor := range descriptors {
			target, _ := os.Readlink(descriptor)
			if socket, listens := open[target]; listens {
				socket.Args = p.args
				listeners = append(listeners, socket)
			}
		}
	}
	return listeners
}

func network(pid string) string {
	name, _ := os.Readlink(filepath.Join("/proc", pid, "ns", "net"))
	return name
}

// openSockets returns all listening sockets of the machine's network, by the link text of a file descriptor.
func openSockets() map[string]listener {
	const tcpListens, udpUnconnected = "0A", "07"
	listeners := map[string]listener{}
	for protocol, state := range map[string]string{"tcp": tcpListens, "tcp6": tcpListens, "udp": udpUnconnected, "udp6": udpUnconnected} {
		for _, line := range lines("/proc/net/" + protocol)[1:] {
			if field := strings.Fields(line); field[3] == state {
				listeners["socket:["+field[9]+"]"] = listener{Protocol: protocol, Address: parseAddress(field[1])}
			}
		}
	}
	return listeners
}

// parseAddress reads the kernel's 0100007F:1F90, which has each group of four bytes backwards.
func parseAddress(text string) netip.AddrPort {
	host, port, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(host)
	Expect(err).NotTo(HaveOccurred())
	for group := range slices.Chunk(bytes, 4) {
		slices.Reverse(group)
	}
	address, _ := netip.AddrFromSlice(bytes)
	number, err := strconv.ParseUint(port, 16, 16)
	Expect(err).NotTo(HaveOccurred())
	return netip.AddrPortFrom(address.Unmap(), uint16(number))
}

// bridgeAddress returns the machine's own address on the cluster's network.
func (c cluster) bridgeAddress() netip.Addr {
	bridge, err := net.InterfaceByName("dc-" + c.clusterID())
	Expect(err).NotTo(HaveOccurred())
	addresses, err := bridge.Addrs()
	Expect(err).NotTo(HaveOccurred())
	return netip.MustParsePrefix(addresses[0].String()).Addr()
}

func itoa(number int) string { return strconv.Itoa(number) }
