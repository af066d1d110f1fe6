package limit

import (
	"net"
	"net/netip"
)

// ipv6PrefixBits is how much of an IPv6 address counts: a host with one address usually has all that share this prefix.
const ipv6PrefixBits = 64

// Source returns where a connection comes from, by its remote address: the IPv4 address, or the first half of the IPv6 address. Behind
// a NAT, and on a node's network, many programs share a source.
func Source(remote net.Addr) string {
	if tcp, isTCP := remote.(*net.TCPAddr); isTCP {
		return sourceOf(tcp.AddrPort().Addr())
	}
	if remote == nil {
		return ""
	}
	return SourceOf(remote.String())
}

// addressOf returns the whole remote address of a connection.
func addressOf(remote net.Addr) string {
	if tcp, isTCP := remote.(*net.TCPAddr); isTCP {
		return tcp.AddrPort().Addr().Unmap().WithZone("").String()
	}
	return Source(remote)
}

// SourceOf is Source for an address and a port as text.
func SourceOf(remote string) string {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	return sourceOf(parsed.Addr())
}

func sourceOf(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	prefix, err := address.Prefix(ipv6PrefixBits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
