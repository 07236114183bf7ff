// A closed loop of etcd v3 clients, to be measured beside kvctl bench: the same keys, the same sizes,
// the same counting. Debian packages it needs: golang-go golang-etcd-server-dev.
//
//	etcdbench -endpoints A,B,C -op put|get -clients 64 -duration 8s
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/clientv3"
)

var (
	endpoints = flag.String("endpoints", "127.0.0.1:2379", "comma separated")
	op        = flag.String("op", "put", "put or get (linearizable)")
	clients   = flag.Int("clients", 64, "operations in flight")
	conns     = flag.Int("connections", 0, "0: one for each client, at most 100")
	duration  = flag.Duration("duration", 8*time.Second, "measured")
	warmup    = flag.Duration("warmup", time.Second, "before it")
	keys      = flag.Int("keys", 100000, "")
	valueSize = flag.Int("value-size", 256, "")
)

func dial(n int) []*clientv3.Client {
	addresses := strings.Split(*endpoints, ",")
	all := make([]*clientv3.Client, n)
	for i := range all {
		c, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{addresses[i%len(addresses)]},
			DialTimeout: 5 * time.Second,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		all[i] = c
	}
	return all
}

// run is one client: one operation after another until `end`. It returns the latencies, in
// microseconds, of those that began after `from` and ended before `end`.
func run(c *clientv3.Client, seed int64, value string, from, end time.Time, failed *int64) []float64 {
	random := rand.New(rand.NewSource(seed))
	ctx := context.Background()
	var took []float64
	for {
		begun := time.Now()
		if begun.After(end) {
			return took
		}
		key := fmt.Sprintf("bench/%010d", random.Intn(*keys))
		var err error
		if *op == "get" {
			_, err = c.Get(ctx, key)
		} else {
			_, err = c.Put(ctx, key, value)
		}
		now := time.Now()
		if err != nil {
			atomic.AddInt64(failed, 1)
		} else if begun.After(from) && now.Before(end) {
			took = append(took, float64(now.Sub(begun).Nanoseconds())/1e3)
		}
	}
}

func at(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(part * float64(len(sorted)))
	if i >= len(sorted) {
		i = len(sorted) - 1
	}
	return sorted[i]
}

func main() {
	flag.Parse()
	n := *conns
	if n == 0 {
		n = *clients
		if n > 100 {
			n = 100
		}
	}
	connections := dial(n)
	random := make([]byte, *valueSize)
	rand.Read(random)

	from := time.Now().Add(*warmup)
	end := from.Add(*duration)
	took := make([][]float64, *clients)
	var failed int64
	var running sync.WaitGroup
	for i := 0; i < *clients; i++ {
		running.Add(1)
		go func(i int) {
			defer running.Done()
			took[i] = run(connections[i%n], int64(i)*7919+1, string(random), from, end, &failed)
		}(i)
	}
	running.Wait()

	var all []float64
	for _, one := range took {
		all = append(all, one...)
	}
	sort.Float64s(all)
	fmt.Printf(`{"op":"%s","clients":%d,"connections":%d,"ops":%d,"ops_per_s":%.3f,"p50_us":%.0f,`+
		`"p99_us":%.0f,"max_us":%.0f,"errors":%d}`+"\n", *op, *clients, n, len(all),
		float64(len(all))/duration.Seconds(), at(all, 0.5), at(all, 0.99), at(all, 1), failed)
}
