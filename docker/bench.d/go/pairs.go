// Go's clientv3/concurrency, its Mutex and its Election, as a process of the bench: it implements
// the protocol of benches/src/link.rs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// How long tasks may take to finish after the end of the window.
const patience = 20 * time.Second

// The pause of a task after a failure.
const pause = 50 * time.Millisecond

// Contender is a client of the lock. The queue identifies contenders by their leases, so each has
// its own session.
type Contender struct {
	lock   func(context.Context) error
	unlock func(context.Context) error
	// Shared by the contenders of one name; nil if each has its own name.
	turns *Turns
}

type window struct{ begin, end uint64 }

func (w window) has(instant uint64) bool { return w.begin <= instant && instant < w.end }

// orders reads the bench's messages. The process exits when the bench has closed the pipe, whatever
// it waits for.
func orders() <-chan string {
	lines := make(chan string)
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			lines <- input.Text()
		}
		os.Exit(1)
	}()
	return lines
}

func say(kind string, what any) {
	line, err := json.Marshal(map[string]any{kind: what})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func main() {
	answers := orders()
	sessions, slice, err := work(answers)
	if err != nil {
		say("Failed", err.Error())
	} else {
		say("Done", slice)
	}
	<-answers
	for _, session := range sessions {
		session.Close()
	}
}

func work(answers <-chan string) ([]*concurrency.Session, *Slice, error) {
	task, err := parse(os.Args[1:])
	if err != nil {
		return nil, nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		// One connection, as the others have.
		Endpoints:   task.Servers[:1],
		DialTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, nil, err
	}
	pairs, slice := task.Work.Pairs, newSlice()
	contenders, sessions := []Contender{}, []*concurrency.Session{}
	for who := range pairs.Tasks {
		session, err := concurrency.NewSession(client)
		if err != nil {
			return sessions, nil, err
		}
		sessions = append(sessions, session)
		name, turns := task.Namespace+"/lock", (*Turns)(nil)
		if pairs.Names == "Each" {
			name += fmt.Sprintf("-%d", who)
		} else if who == 0 {
			turns = &Turns{}
		} else {
			turns = contenders[0].turns
		}
		contender := Contender{turns: turns}
		switch pairs.Primitive {
		case "Mutex":
			mutex := concurrency.NewMutex(session, name)
			contender.lock, contender.unlock = mutex.Lock, mutex.Unlock
		case "Election":
			election := concurrency.NewElection(session, name)
			contender.lock = func(ctx context.Context) error { return election.Campaign(ctx, "bench") }
			contender.unlock = election.Resign
		default:
			return sessions, nil, errors.New("there is no " + pairs.Primitive)
		}
		contenders = append(contenders, contender)
	}
	if err := rawWrites(client, task, sessions[0].Lease(), slice); err != nil {
		return sessions, nil, err
	}
	slice.RssBefore, _ = memory()

	say("Mark", "ready")
	start, err := strconv.ParseUint(<-answers, 10, 64)
	if err != nil {
		return sessions, nil, err
	}
	begin := start + pairs.WarmupMs*1_000_000
	window := window{begin, begin + pairs.RunMs*1_000_000}
	time.Sleep(time.Duration(int64(start - now())))
	busy := cpu()
	left := time.Duration(int64(window.end-now())) + patience
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	seen := make([]*Slice, pairs.Tasks)
	var tasks sync.WaitGroup
	for who, contender := range contenders {
		seen[who] = newSlice()
		tasks.Add(1)
		go contender.contend(ctx, who, window, pairs.Stamps, seen[who], &tasks)
	}
	tasks.Wait()
	slice.Cpu = cpu() - busy
	slice.Time = pairs.RunMs * 1_000_000
	for _, seen := range seen {
		slice.absorb(seen)
	}
	slice.Rss, slice.RssPeak = memory()
	return sessions, slice, nil
}

func (c Contender) contend(
	ctx context.Context, who int, in window, stamps bool, seen *Slice, tasks *sync.WaitGroup,
) {
	defer tasks.Done()
	for now() < in.end {
		if err := c.pair(ctx, who, in, stamps, seen); err != nil {
			seen.failed(err)
			time.Sleep(pause)
		}
	}
}

// pair is a lock and an unlock, timed as in benches/src/pairs.rs.
func (c Contender) pair(ctx context.Context, who int, in window, stamps bool, seen *Slice) error {
	called := now()
	if err := c.lock(ctx); err != nil {
		return err
	}
	granted, gap, err := c.turns.granted(who)
	if err != nil {
		c.unlock(ctx)
		return err
	}
	released := c.turns.release(who)
	if err := c.unlock(ctx); err != nil {
		return err
	}
	unlocked := now()
	seen.AllPairs++
	seen.Longest = max(seen.Longest, granted-called)
	if in.has(granted) {
		seen.Lock = append(seen.Lock, granted-called)
		if gap >= 0 {
			seen.Gap = append(seen.Gap, uint64(gap))
		}
		if stamps {
			seen.Stamps = append(seen.Stamps, Stamp{granted, released, who})
		}
	}
	if in.has(unlocked) {
		seen.Pairs++
		seen.Unlock = append(seen.Unlock, unlocked-released)
	}
	return nil
}

// rawWrites times single writes like the floor's.
func rawWrites(client *clientv3.Client, task Task, lease clientv3.LeaseID, slice *Slice) error {
	ctx, key := context.Background(), fmt.Sprintf("%s-raw-%x", task.Namespace, lease)
	count := task.Work.Pairs.RawWrites
	if count == 0 {
		return nil
	}
	for index := range count + 2 {
		start := now()
		put := clientv3.OpPut(key, "", clientv3.WithLease(lease))
		if _, err := client.Txn(ctx).Then(put).Commit(); err != nil {
			return err
		}
		// The first ones establish connections.
		if index >= 2 {
			slice.RawWrite = append(slice.RawWrite, now()-start)
		}
		if _, err := client.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
