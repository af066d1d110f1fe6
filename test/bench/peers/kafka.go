package main

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/swarm-io/swarm-operator/internal/pool/assign"
)

// topic is the one of which all jobs are partitions.
const topic = "jobs"

// runKafka does what a Kafka consumer group does. The members' messages are created and read outside of the measured time.
func runKafka(in pool, before *assignment) func() assignment {
	var owned []int32
	if before != nil {
		owned = before.owners()
	}
	round := kafkaRound(in, owned)
	return func() assignment {
		plan := round()
		return assignment{owners: func() []int32 { return secondRoundOwners(in, plan) }}
	}
}

// kafkaRound is one round of balancing among members that own partitions.
func kafkaRound(in pool, owned []int32) func() *kgo.BalancePlan {
	balancer := kgo.CooperativeStickyBalancer()
	parts := map[int32][]int32{}
	for partition, owner := range owned {
		parts[owner] = append(parts[owner], int32(partition))
	}
	var members []kmsg.JoinGroupResponseMember
	for _, worker := range in.workers {
		join := kmsg.NewJoinGroupResponseMember()
		join.MemberID = worker.Name
		current := map[string][]int32{}
		if mine := parts[int32(worker.Ordinal)]; len(mine) > 0 {
			current[topic] = mine
		}
		join.ProtocolMetadata = balancer.JoinGroupMetadata([]string{topic}, current, 1)
		members = append(members, join)
	}
	balance, _, err := balancer.MemberBalancer(members)
	if err != nil {
		panic(fmt.Errorf("join members: %w", err)) // all messages are created here
	}
	group := balance.(kgo.GroupMemberBalancerOrError)
	return func() *kgo.BalancePlan {
		plan, err := group.BalanceOrError(map[string]int32{topic: int32(len(in.names))})
		if err != nil {
			panic(fmt.Errorf("balance: %w", err))
		}
		return plan.(*kgo.BalancePlan)
	}
}

// secondRoundOwners returns the final owners: what was revoked in the first round is assigned in a second.
func secondRoundOwners(in pool, plan *kgo.BalancePlan) []int32 {
	owners := ownersIn(in.workers, plan, len(in.names))
	if slices.Contains(owners, none) {
		owners = ownersIn(in.workers, kafkaRound(in, owners)(), len(in.names))
	}
	return owners
}

func ownersIn(workers []assign.Worker, plan *kgo.BalancePlan, jobs int) []int32 {
	owners := slices.Repeat([]int32{none}, jobs)
	assigned := plan.AsMemberIDMap()
	for _, worker := range workers {
		for _, partition := range assigned[worker.Name][topic] {
			owners[partition] = int32(worker.Ordinal)
		}
	}
	return owners
}
