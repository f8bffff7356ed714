// Command rpc_load is many clients of gRPC in one process, each with a connection as an SDK of Nacos 2.x has it.
//
// It opens all, and prints a line of JSON. Then it takes a command a line, and prints a line of JSON for each:
//
//	calls KIND COUNT changing|none   COUNT calls over all connections, one at a time on each, with another grpc-timeout each,
//	      [RATE]                     or none; at most RATE a second. KIND: health; register, the same instance again; query;
//	                                 churn, in turn a new instance and its removal; batch, batchSize instances with other
//	                                 metadata
//	health SECONDS                   begin to ask for the health of each connection so often; 0 ends it
//	change MARK                      the first client changes its instance; all that subscribe are told, and answer
//	changes COUNT                    the same again and again: times until the other clients of each address are told
//	counts                           what went wrong so far
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	changeTimeout = 60 * time.Second
	betweenPushes = 60 * time.Millisecond // some servers push a service at most each 50 ms

	batchSize       = 100
	churnedServices = 100
	newOfARun       = 100_000 // new instances of one connection in one run
)

// load is all clients, and what is counted of them.
type load struct {
	clients      []*client
	addresses    []string
	service      string
	change       atomic.Pointer[change]
	failed       atomic.Int64
	streamsEnded atomic.Int64
	checks       atomic.Int64
	come         atomic.Int64 // new instances so far: none comes twice
	stopChecks   context.CancelFunc
	checking     sync.WaitGroup
}

// change is one change, and who was told of it.
type change struct {
	mark    []byte
	text    string
	begun   time.Time
	wanted  int64
	told_   atomic.Int64
	acked   atomic.Int64
	lastAck atomic.Int64
	done    chan struct{}
}

func (c *change) told(one *client) bool {
	if before := one.told.Swap(&c.text); before != nil && *before == c.text {
		return false
	}
	one.toldAt.Store(int64(time.Since(c.begun)))
	c.told_.Add(1)
	return true
}

func (c *change) acknowledged() {
	c.lastAck.Store(int64(time.Since(c.begun)))
	if c.acked.Add(1) == c.wanted {
		close(c.done)
	}
}

type result map[string]any

func milliseconds(nanoseconds int64) float64 { return float64(nanoseconds/1e3) / 1e3 }

// figures returns percentiles in units of the given number of nanoseconds.
func figures(times []int64, unit float64, suffix string) result {
	sort.Slice(times, func(a, b int) bool { return times[a] < times[b] })
	found := result{"count": len(times)}
	if len(times) == 0 {
		return found
	}
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		at := min(int(float64(len(times))*part), len(times)-1)
		found[name+suffix] = float64(int64(float64(times[at])/unit*10)) / 10
	}
	return found
}

func (l *load) open(count int, atOnce int, sources []string, isBare bool, subscribes bool) error {
	l.clients = make([]*client, count)
	numbers, failures := make(chan int), make(chan error, atOnce)
	var workers sync.WaitGroup
	for range min(atOnce, count) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for number := range numbers {
				if err := l.openOne(number, sources[number%len(sources)], isBare, subscribes); err != nil {
					select {
					case failures <- fmt.Errorf("connection %d: %w", number, err):
					default:
					}
				}
			}
		}()
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	workers.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func (l *load) openOne(number int, source string, isBare bool, subscribes bool) error {
	ctx := context.Background()
	one, err := dial(ctx, number, l.addresses[number%len(l.addresses)], source)
	if err != nil {
		return err
	}
	l.clients[number] = one
	if isBare {
		_, _, err := one.call(ctx, healthCheck)
		return err
	}
	if err := one.setUp(ctx, l); err != nil {
		return err
	}
	if subscribes {
		return one.subscribe(ctx, l.service)
	}
	return nil
}

// messages returns what makes the messages of one kind, in order, for the connection with a number.
func (l *load) messages(kind string, at int) (func() []byte, error) {
	own := fmt.Sprintf("%s-%d", l.service, at)
	same := func(message []byte) (func() []byte, error) { return func() []byte { return message }, nil }
	switch kind {
	case "health":
		return same(healthCheck)
	case "register":
		return same(instanceRequest("registerInstance", own, fmt.Sprintf("10.0.%d.%d", at/250, at%250+1), "0"))
	case "query":
		return same(queryRequest(own))
	case "churn":
		first, sent := l.come.Add(newOfARun)-newOfARun, int64(-1)
		return func() []byte {
			sent++
			number := first + sent/2
			verb := []string{"registerInstance", "deregisterInstance"}[sent%2]
			ip := fmt.Sprintf("%d.%d.%d.%d", 11+number/4_000_000%200, number/62_500%64, number/250%250, number%250+1)
			return instanceRequest(verb, fmt.Sprintf("churned-%d", number%churnedServices), ip, strconv.FormatInt(number, 10))
		}, nil
	case "batch":
		return func() []byte {
			return batchRequest(own+"-batch", at, strconv.FormatInt(l.come.Add(1), 10))
		}, nil
	}
	return nil, fmt.Errorf("no kind of call: %s", kind)
}

// calls makes calls of one kind over all connections, at most rate a second; 0 is without a bound.
func (l *load) calls(kind string, count int, changesTimeout bool, isBare bool, rate int) (result, error) {
	each, between := max(count/len(l.clients), 1), time.Duration(0)
	if rate > 0 {
		between = time.Duration(len(l.clients)) * time.Second / time.Duration(rate)
	}
	var failed atomic.Int64
	var working sync.WaitGroup
	times := make([][]int64, len(l.clients))
	begun := time.Now()
	for at, one := range l.clients {
		next, err := l.messages(kind, at)
		if err != nil {
			return nil, err
		}
		working.Add(1)
		go func() {
			defer working.Done()
			took := make([]int64, 0, each)
			for number := range each {
				// A call that comes late is not made up for: the next ones keep their times.
				time.Sleep(time.Until(begun.Add(between*time.Duration(number) + between*time.Duration(one.number)/time.Duration(len(l.clients)))))
				ctx, cancel := context.Background(), func() {}
				if changesTimeout {
					ctx, cancel = context.WithTimeout(ctx, callTimeout)
				}
				message := next()
				at := time.Now()
				_, body, err := one.call(ctx, message)
				took = append(took, int64(time.Since(at)))
				cancel()
				if err != nil || !(isBare || isSuccess(body)) {
					failed.Add(1)
				}
			}
			times[one.number] = took
		}()
	}
	working.Wait()
	seconds := time.Since(begun).Seconds()
	all := make([]int64, 0, each*len(l.clients))
	for _, some := range times {
		all = append(all, some...)
	}
	found := figures(all, 1e3, "_us")
	delete(found, "count")
	found["calls"], found["errors"], found["seconds"] = len(all), failed.Load(), seconds
	return found, nil
}

// health begins or ends the health checks of all connections.
func (l *load) health(interval time.Duration) result {
	if l.stopChecks != nil {
		l.stopChecks()
		l.checking.Wait()
		l.stopChecks = nil
	}
	if interval > 0 {
		ctx, cancel := context.WithCancel(context.Background())
		l.stopChecks = cancel
		for at, one := range l.clients {
			l.checking.Add(1)
			go func() {
				defer l.checking.Done()
				timer := time.NewTimer(interval * time.Duration(at) / time.Duration(len(l.clients)))
				defer timer.Stop()
				for {
					select {
					case <-ctx.Done():
						return
					case <-timer.C:
					}
					timer.Reset(interval)
					if err := one.mustCall(context.Background(), healthCheck); err != nil {
						l.failed.Add(1)
						fmt.Fprintln(os.Stderr, "health check:", err)
					}
					l.checks.Add(1)
				}
			}()
		}
	}
	return l.counts()
}

func (l *load) counts() result {
	return result{
		"connections": len(l.clients), "failed": l.failed.Load(), "streams_ended": l.streamsEnded.Load(),
		"health_checks": l.checks.Load(),
	}
}

// tell changes the first client's instance, and waits until all have answered.
func (l *load) tell(mark string) (*change, error) {
	told := &change{
		mark: []byte(`"n":"` + mark + `"`), text: mark, wanted: int64(len(l.clients)), done: make(chan struct{}), begun: time.Now(),
	}
	l.change.Store(told)
	if err := l.clients[0].mustCall(context.Background(), instanceRequest("registerInstance", l.service, "10.9.0.1", mark)); err != nil {
		return nil, err
	}
	select {
	case <-told.done:
		return told, nil
	case <-time.After(changeTimeout):
		return nil, fmt.Errorf("%d of %d are told of it", told.told_.Load(), told.wanted)
	}
}

func (l *load) one(mark string) (result, error) {
	told, err := l.tell(mark)
	if err != nil {
		return nil, err
	}
	times := make([]int64, len(l.clients))
	for at, one := range l.clients {
		times[at] = one.toldAt.Load()
	}
	found := figures(times, 1e6, "_ms")
	found["last_answer_ms"] = milliseconds(told.lastAck.Load())
	return found, nil
}

func (l *load) many(count int) (result, error) {
	times := make([][]int64, len(l.addresses))
	for number := range count {
		if _, err := l.tell(fmt.Sprintf("m%d", number)); err != nil {
			return nil, err
		}
		for at, one := range l.clients[1:] {
			of := (at + 1) % len(l.addresses)
			times[of] = append(times[of], one.toldAt.Load())
		}
		time.Sleep(betweenPushes)
	}
	found := result{}
	for at, some := range times {
		found[l.addresses[at]] = figures(some, 1e6, "_ms")
	}
	return found, nil
}

func (l *load) do(words []string, isBare bool) (result, error) {
	number := func(at int) int {
		value, err := strconv.Atoi(words[at])
		if err != nil {
			value = -1
		}
		return value
	}
	switch {
	case len(words) == 4 && words[0] == "calls" && number(2) > 0:
		return l.calls(words[1], number(2), words[3] == "changing", isBare, 0)
	case len(words) == 5 && words[0] == "calls" && number(2) > 0 && number(4) > 0:
		return l.calls(words[1], number(2), words[3] == "changing", isBare, number(4))
	case len(words) == 2 && words[0] == "health" && number(1) >= 0:
		return l.health(time.Duration(number(1)) * time.Second), nil
	case len(words) == 2 && words[0] == "change":
		return l.one(words[1])
	case len(words) == 2 && words[0] == "changes" && number(1) > 0:
		return l.many(number(1))
	case len(words) == 1 && words[0] == "counts":
		return l.counts(), nil
	}
	return nil, fmt.Errorf("no command: %s", strings.Join(words, " "))
}

func main() {
	addresses := flag.String("addresses", "127.0.0.1:9848", "gRPC ports, with commas between; connections go to each in turn")
	count := flag.Int("connections", 32, "in all")
	atOnce := flag.Int("at-once", 50, "opened at once")
	sources := flag.String("sources", "", "addresses, with commas between, from which connections come in turn")
	service := flag.String("service", "load", "the service that is changed, and the beginning of the names of others")
	subscribes := flag.Bool("subscribe", false, "each connection subscribes to the service")
	isBare := flag.Bool("bare", false, "the server echoes: no setup, and answers are not looked at")
	flag.Parse()
	all := &load{addresses: strings.Split(*addresses, ","), service: *service}
	out := json.NewEncoder(os.Stdout)
	begun := time.Now()
	if err := all.open(*count, *atOnce, strings.Split(*sources, ","), *isBare, *subscribes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = out.Encode(result{"connections": *count, "seconds": time.Since(begun).Seconds()})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		found, err := all.do(strings.Fields(commands.Text()), *isBare)
		if err != nil {
			found = result{"error": err.Error()}
		}
		_ = out.Encode(found)
	}
}
