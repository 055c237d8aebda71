/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Discards datagrams that come too fast before the network stack sees them (XDP).
 *
 * A flow is a destination, address and port: keyed more coarsely, a flood would take a neighbour's rate. Flows that are
 * not in the table pass, and so does everything but Ethernet without tags, IPv4 with options or IPv6 without extension
 * headers, and UDP that is not fragmented.
 *
 * The policer is the generic cell rate algorithm in its form of virtual scheduling (ITU-T I.371, annex A). Two CPUs may
 * police one flow at the same instant: then one packet more may pass. Counts are atomic.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* More fragments, or the offset of a fragment. */
#define FRAGMENT 0x3fff

/* An address of IPv6, or of IPv4 as one that maps it (RFC 4291, section 2.5.5.2), in words of network order. */
struct flow {
	__u32 address[4];
	__be16 port;
	__u16 zero[3];
};

struct rate {
	/* Nanoseconds between two packets, and how much earlier one may come. */
	__u64 spacing;
	__u64 tolerance;
};

struct state {
	/* When the next packet is due. */
	__u64 due;
	__u64 passed;
	__u64 discarded;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct rate);
} rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct state);
} states SEC(".maps");

/* Finds the destination of a datagram, and returns its version of IP; 0 if the packet is none. */
static __always_inline int destination(void *at, void *end, struct flow *flow)
{
	struct ethhdr *ethernet = at;
	struct udphdr *udp;
	int version;

	if ((void *)(ethernet + 1) > end)
		return 0;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(ethernet + 1);

		if ((void *)(ip + 1) > end || ip->protocol != IPPROTO_UDP || ip->ihl < 5)
			return 0;
		if (ip->frag_off & bpf_htons(FRAGMENT))
			return 0;
		flow->address[2] = bpf_htonl(0xffff);
		flow->address[3] = ip->daddr;
		udp = (void *)ip + 4 * ip->ihl;
		version = 4;
	} else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(ethernet + 1);

		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return 0;
		__builtin_memcpy(flow->address, &ip->daddr, sizeof(flow->address));
		udp = (void *)(ip + 1);
		version = 6;
	} else {
		return 0;
	}
	if ((void *)(udp + 1) > end)
		return 0;
	flow->port = udp->dest;
	return version;
}

SEC("xdp")
int police(struct xdp_md *packet)
{
	struct flow flow = {};
	struct rate *rate;
	struct state *state;
	__u64 now, due;
	int version = destination((void *)(long)packet->data, (void *)(long)packet->data_end, &flow);

	if (!version)
		return XDP_PASS;
	rate = bpf_map_lookup_elem(&rates, &flow);
	if (!rate) {
		/* A socket that listens at any address of the family. */
		flow.address[0] = flow.address[1] = flow.address[3] = 0;
		if (version == 6)
			flow.address[2] = 0;
		rate = bpf_map_lookup_elem(&rates, &flow);
	}
	if (!rate)
		return XDP_PASS;
	state = bpf_map_lookup_elem(&states, &flow);
	if (!state)
		return XDP_PASS;

	now = bpf_ktime_get_ns();
	due = state->due;
	if (due > now + rate->tolerance) {
		__sync_fetch_and_add(&state->discarded, 1);
		return XDP_DROP;
	}
	state->due = (due > now ? due : now) + rate->spacing;
	__sync_fetch_and_add(&state->passed, 1);
	return XDP_PASS;
}

char terms[] SEC("license") = "Dual MIT/GPL";
