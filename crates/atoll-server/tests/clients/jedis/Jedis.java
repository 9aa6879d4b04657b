// Jedis as a client: java -cp JARS Jedis.java PORT.

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public class Jedis {
    static void must(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void check(int port, RedisProtocol protocol) throws Exception {
        var config = DefaultJedisClientConfig.builder().clientName("jedis").protocol(protocol).build();
        try (var r = new JedisPooled(new HostAndPort("127.0.0.1", port), config)) {
            r.flushAll();
            must(r.set("k", "v", SetParams.setParams().ex(100)).equals("OK"), "SET");
            must(r.get("k").equals("v") && r.get("absent") == null, "GET");
            must(r.set("k", "w", SetParams.setParams().nx()) == null, "SET NX");
            must(r.ttl("k") > 90, "TTL");
            r.mset("a", "1", "b", "2");
            must(r.mget("a", "none", "b").equals(Arrays.asList("1", null, "2")), "MGET");
            must(r.incrBy("a", 41) == 42 && r.incrByFloat("f", 0.5) == 0.5, "INCRBY");
            try {
                r.incr("k");
                throw new AssertionError("a word was counted up");
            } catch (JedisDataException error) {
                must(error.getMessage().equals("ERR value is not an integer or out of range"), error.getMessage());
            }
            try (var threads = new AutoCloseablePool()) {
                for (int thread = 0; thread < 8; thread++) {
                    threads.pool.submit(() -> {
                        for (int index = 0; index < 100; index++) {
                            r.incr("n");
                        }
                    });
                }
            }
            must(r.get("n").equals("800"), "increments of many threads");
            try (var pipeline = r.pipelined()) {
                var set = pipeline.set("p", "1");
                var count = pipeline.incr("p");
                pipeline.sync();
                must(set.get().equals("OK") && count.get() == 2, "a pipeline");
            }
            try (var transaction = r.multi()) {
                transaction.set("t", "1");
                transaction.incr("t");
                must(transaction.exec().equals(List.of("OK", 2L)), "MULTI");
            }
            try (var transaction = r.transaction(false)) {
                transaction.watch("t");
                r.set("t", "changed");
                transaction.multi();
                transaction.set("t", "lost");
                must(transaction.exec() == null && r.get("t").equals("changed"), "WATCH");
            }
            must(r.hset("h", Map.of("f", "1", "g", "2")) == 2 && r.hincrBy("h", "f", 6) == 7, "HSET");
            must(r.hgetAll("h").equals(Map.of("f", "7", "g", "2")), "HGETALL");
            var release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
            r.set("lock", "mine");
            must(r.eval(release, List.of("lock"), List.of("another's")).equals(0L), "EVAL");
            must(r.evalsha(r.scriptLoad(release, "lock"), List.of("lock"), List.of("mine")).equals(1L), "EVALSHA");
            var found = new TreeSet<String>();
            var scanned = new ScanResult<String>("0", List.of());
            do {
                scanned = r.scan(scanned.getCursor(), new ScanParams().match("?").count(100));
                found.addAll(scanned.getResult());
            } while (!scanned.isCompleteIteration());
            must(String.join("", found).equals("abfhknpt"), "SCAN");
            var blob = new byte[1 << 20];
            for (int index = 0; index < blob.length; index++) {
                blob[index] = (byte) index;
            }
            r.set("blob".getBytes(), blob);
            must(Arrays.equals(r.get("blob".getBytes()), blob), "a large value");
            listen(r);
        }
        // Pools as frameworks use them: a PING before each loan, databases by number.
        try (var pool = new JedisPool("127.0.0.1", port); var one = pool.getResource()) {
            must(one.ping().equals("PONG") && one.select(4).equals("OK"), "SELECT");
            must(one.set("k", "four").equals("OK") && one.dbSize() == 1 && one.clientList() != null, "DBSIZE");
            must(one.info("server").contains("redis_mode:standalone"), "INFO");
        }
    }

    static void listen(JedisPooled r) throws Exception {
        var subscribed = new CountDownLatch(1);
        var got = new StringBuilder();
        var listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                subscribed.countDown();
            }

            @Override
            public void onMessage(String channel, String message) {
                got.append(message);
                unsubscribe();
            }
        };
        var thread = new Thread(() -> r.subscribe(listener, "news"));
        thread.start();
        must(subscribed.await(10, TimeUnit.SECONDS), "SUBSCRIBE");
        must(r.publish("news", "hello") == 1, "PUBLISH");
        thread.join(10_000);
        must(got.toString().equals("hello"), "a message");
    }

    /** Threads that have ended when this is closed. */
    static class AutoCloseablePool implements AutoCloseable {
        final java.util.concurrent.ExecutorService pool = Executors.newFixedThreadPool(8);

        @Override
        public void close() throws Exception {
            pool.shutdown();
            must(pool.awaitTermination(20, TimeUnit.SECONDS), "threads end");
        }
    }

    public static void main(String[] args) throws Exception {
        check(Integer.parseInt(args[0]), RedisProtocol.RESP2);
        check(Integer.parseInt(args[0]), RedisProtocol.RESP3);
    }
}
