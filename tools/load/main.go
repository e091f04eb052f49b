// Load asks a running `headcount serve` for plans over a number of connections, each with
// one request at a time, and prints how many it answers a second, how long they take, and
// how much memory the server holds as it goes.
//
//	headcount serve &
//	go run ./tools/load -n 1000000
//
// It speaks HTTP/1.1 by hand: on the machine that it shares with the server, a client's own
// work would otherwise be most of what is measured.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "the server, on this machine")
	conns := flag.Int("c", 32, "connections")
	n := flag.Int64("n", 100_000, "requests")
	body := flag.String("body", `{"model":"llama-3-70b","tensor_parallel_size":8,"kv_cache_memory_bytes":42949672960}`, "the request")
	flag.Parse()
	if err := run(os.Stdout, *addr, *conns, *n, *body); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// run sends n requests and prints what came of them.
func run(out io.Writer, addr string, conns int, n int64, body string) error {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	if !tcp.IP.IsLoopback() {
		return errors.New(addr + " is another machine's: load is for servers of this one")
	}
	request := fmt.Sprintf("POST /v1/plan HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	before, err := memory(addr)
	if err != nil {
		return err
	}
	l := &load{addr: tcp.String(), request: []byte(request), left: n}
	start := time.Now()
	var wg sync.WaitGroup
	took := make([][]time.Duration, conns)
	fails := make([]error, conns)
	for i := range conns {
		wg.Go(func() { took[i], fails[i] = l.ask() })
	}
	marks := l.watch(n, &wg)
	elapsed := time.Since(start)
	if err := errors.Join(fails...); err != nil {
		return err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	at := func(share float64) time.Duration {
		return all[int(share*float64(len(all)-1))].Round(10 * time.Microsecond)
	}
	fmt.Fprintf(out, "%s\n%d requests over %d connections in %.1f s: %.0f a second\n", body, n, conns, elapsed.Seconds(), float64(n)/elapsed.Seconds())
	fmt.Fprintf(out, "latency: median %v, 99 %% %v, 99.9 %% %v, longest %v\n", at(.5), at(.99), at(.999), at(1))
	fmt.Fprintf(out, "server's memory, MiB: %.0f before; %s\n", before, strings.Join(marks, ", "))
	return nil
}

// A load is what connections share.
type load struct {
	addr    string
	request []byte
	left    int64
}

// ask sends requests over one connection until none are left.
func (l *load) ask() (took []time.Duration, err error) {
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	for atomic.AddInt64(&l.left, -1) >= 0 {
		start := time.Now()
		if _, err := conn.Write(l.request); err != nil {
			return nil, err
		}
		if err := skipAnswer(r); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// skipAnswer reads one answer, which is to be 200 and say its length.
func skipAnswer(r *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("answered %q", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			break
		}
	}
	if length < 0 {
		return errors.New("an answer without its length")
	}
	_, err := r.Discard(length)
	return err
}

// watch notes the server's memory at each tenth of the requests, until all are answered.
func (l *load) watch(n int64, wg *sync.WaitGroup) []string {
	done := make(chan bool)
	go func() { wg.Wait(); close(done) }()
	var marks []string
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for tenth := int64(1); ; {
		select {
		case <-done:
			if mib, err := memory(l.addr); err == nil {
				marks = append(marks, fmt.Sprintf("%.0f at the end", mib))
			}
			return marks
		case <-tick.C:
			if answered := n - atomic.LoadInt64(&l.left); answered < tenth*n/10 || tenth > 9 {
				continue
			}
			if mib, err := memory(l.addr); err == nil {
				marks = append(marks, fmt.Sprintf("%.0f", mib))
			}
			tenth++
		}
	}
}

// memory is what the server holds resident, in MiB.
func memory(addr string) (float64, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /metrics HTTP/1.0\r\nHost: %s\r\n\r\n", addr)
	for s := bufio.NewScanner(conn); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "process_resident_memory_bytes "); ok {
			bytes, err := strconv.ParseFloat(v, 64)
			return bytes / (1 << 20), err
		}
	}
	return 0, errors.New("the server says nothing of its memory at /metrics")
}
