// go-redis as a client: go-redis PORT.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func must(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

// done gives a value that came without an error.
func done[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(protocol int) {
	r := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, ClientName: "go", PoolSize: 5,
	})
	defer r.Close()
	done(r.FlushAll(ctx).Result())
	must(done(r.Set(ctx, "k", "v", 100*time.Second).Result()) == "OK", "SET")
	must(done(r.Get(ctx, "k").Result()) == "v", "GET")
	_, err := r.Get(ctx, "absent").Result()
	must(errors.Is(err, redis.Nil), "GET of an absent key")
	must(!done(r.SetNX(ctx, "k", "w", 0).Result()), "SETNX")
	must(done(r.TTL(ctx, "k").Result()) > 90*time.Second, "TTL")
	must(done(r.GetEx(ctx, "k", time.Minute).Result()) == "v", "GETEX")
	done(r.MSet(ctx, "a", 1, "b", 2).Result())
	must(fmt.Sprint(done(r.MGet(ctx, "a", "none", "b").Result())) == "[1 <nil> 2]", "MGET")
	must(done(r.IncrBy(ctx, "a", 41).Result()) == 42, "INCRBY")
	must(done(r.IncrByFloat(ctx, "f", 0.5).Result()) == 0.5, "INCRBYFLOAT")
	must(r.Incr(ctx, "k").Err().Error() == "ERR value is not an integer or out of range", "INCR of a word")

	var threads sync.WaitGroup
	for range 20 {
		threads.Add(1)
		go func() {
			defer threads.Done()
			for range 50 {
				done(r.Incr(ctx, "n").Result())
			}
		}()
	}
	threads.Wait()
	must(done(r.Get(ctx, "n").Int()) == 1000, "increments of many goroutines")

	replies := done(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for index := range 1000 {
			pipe.Set(ctx, fmt.Sprint("p", index), index, time.Minute)
		}
		return nil
	}))
	must(len(replies) == 1000, "a pipeline")
	done(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "t")
		pipe.Expire(ctx, "t", time.Minute)
		return nil
	}))
	err = r.Watch(ctx, func(tx *redis.Tx) error {
		done(r.Incr(ctx, "t").Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "t", 0, 0).Err() })
		return err
	}, "t")
	must(errors.Is(err, redis.TxFailedErr) && done(r.Get(ctx, "t").Int()) == 2, "WATCH")

	type session struct {
		User   string `redis:"user"`
		Visits int    `redis:"visits"`
	}
	done(r.HSet(ctx, "h", session{"ana", 6}).Result())
	done(r.HIncrBy(ctx, "h", "visits", 1).Result())
	var found session
	must(r.HGetAll(ctx, "h").Scan(&found) == nil && found == session{"ana", 7}, "a hash")
	limit := redis.NewScript(`local n = redis.call("INCR", KEYS[1])
		if n == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[1]) end return n`)
	must(done(limit.Run(ctx, r, []string{"limit"}, 5000).Int()) == 1, "a script")
	must(done(limit.Run(ctx, r, []string{"limit"}, 5000).Int()) == 2, "a script by its hash")

	keys := map[string]bool{}
	for each := r.Scan(ctx, 0, "p*", 100).Iterator(); each.Next(ctx); {
		keys[each.Val()] = true
	}
	must(len(keys) == 1000, "SCAN")
	blob := bytes.Repeat([]byte{0, 255, '\r', '\n'}, 1<<18)
	done(r.Set(ctx, "blob", blob, 0).Result())
	must(bytes.Equal(done(r.Get(ctx, "blob").Bytes()), blob), "a large value")

	listener := r.Subscribe(ctx, "news")
	done(listener.Receive(ctx))
	must(done(r.Publish(ctx, "news", "hello").Result()) == 1, "PUBLISH")
	select {
	case message := <-listener.Channel():
		must(message.Payload == "hello", "a message")
	case <-time.After(10 * time.Second):
		panic("no message came")
	}
	must(listener.Ping(ctx) == nil && listener.Close() == nil, "the end of a subscription")
	must(len(done(r.Command(ctx).Result())) > 100, "COMMAND")
	must(done(r.ClientGetName(ctx).Result()) == "go", "CLIENT GETNAME")
	must(done(r.SlowLogGet(ctx, 1).Result()) != nil, "SLOWLOG")
}

func main() {
	check(2)
	check(3)
}
