module github.com/swarm-io/swarm-operator/test/bench/peers

go 1.26.0

require (
	github.com/buraksezer/consistent v1.0.0
	github.com/dgryski/go-jump v0.0.0-20170409065014-e1f439676b57
	github.com/dgryski/go-maglev v0.0.0-20200611225407-8961b9b1b8e6
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f
	github.com/swarm-io/swarm-operator v0.0.0
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kmsg v1.15.0
	stathat.com/c/consistent v1.0.0
)

require (
	github.com/dchest/siphash v1.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
)

replace github.com/swarm-io/swarm-operator => ../../..
