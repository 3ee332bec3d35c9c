// Go's clientv3/concurrency, which executes commands from standard input: see protocol.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sys/unix"
)

func say(word, rest string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	fmt.Println(strings.TrimRight(fmt.Sprintf("%s %d %s", word, now.Nano(), rest), " "))
}

func check(err error) {
	if err != nil {
		say("error", err.Error())
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	path, value := os.Args[2], os.Args[4]
	ttl, err := strconv.Atoi(os.Args[3])
	check(err)
	endpoints := strings.Split(strings.TrimPrefix(os.Args[1], "etcd://"), ",")
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second})
	check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl/1000))
	check(err)
	mutex := concurrency.NewMutex(session, path)
	election := concurrency.NewElection(session, path)
	elects := strings.HasSuffix(path, "!election")

	lock := func() {
		say("ask", "")
		if elects {
			check(election.Campaign(ctx, value))
			say("grant", election.Key())
		} else {
			check(mutex.Lock(ctx))
			say("grant", mutex.Key())
		}
	}
	unlock := func() {
		say("release", "")
		if elects {
			check(election.Resign(ctx))
		} else {
			check(mutex.Unlock(ctx))
		}
	}
	observe := func() {
		for answer := range election.Observe(ctx) {
			say("leader", string(answer.Kvs[0].Value))
		}
	}

	say("ready", strconv.Itoa(os.Getpid()))
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		switch words[0] {
		case "lock":
			lock()
			continue
		case "unlock":
			unlock()
		case "run":
			rounds, err := strconv.Atoi(words[1])
			check(err)
			hold, err := strconv.Atoi(words[2])
			check(err)
			for range rounds {
				lock()
				time.Sleep(time.Duration(hold) * time.Millisecond)
				unlock()
			}
		case "proclaim":
			check(election.Proclaim(ctx, words[1]))
		case "observe":
			go observe()
		default:
			say("error", "unknown command "+words[0])
		}
		say("done", "")
	}
	session.Close()
}
