// ioredis as a client: node ioredis.cjs PORT. The module is found by NODE_PATH.
const assert = require("node:assert/strict");
const Redis = require("ioredis");

const port = Number(process.argv[2]);

async function check(options) {
  // Connecting asks INFO whether the server has loaded its data (enableReadyCheck).
  const redis = new Redis({ port, connectionName: "io", ...options });
  // Without a listener ioredis prints that a connection was reset.
  redis.on("error", () => {});
  await redis.flushall();
  assert.equal(await redis.set("k", "v", "EX", 100), "OK");
  assert.equal(await redis.get("k"), "v");
  assert.equal(await redis.get("absent"), null);
  assert.equal(await redis.set("k", "w", "NX"), null);
  assert.equal(await redis.mset({ a: 1, b: 2 }), "OK");
  assert.deepEqual(await redis.mget("a", "none", "b"), ["1", null, "2"]);
  const many = await Promise.all(Array.from({ length: 1000 }, () => redis.incr("n")));
  assert.equal(many[999], 1000);
  assert.deepEqual(await redis.pipeline().set("p", 1).incr("p").get("p").exec(), [
    [null, "OK"],
    [null, 2],
    [null, "2"],
  ]);
  assert.deepEqual(await redis.multi().set("m", 1).incr("m").exec(), [
    [null, "OK"],
    [null, 2],
  ]);
  const other = redis.duplicate();
  await redis.watch("m");
  await other.set("m", "changed");
  assert.equal(await redis.multi().set("m", "lost").exec(), null);
  const failed = await redis.multi().set("m", "word").incr("m").get("m").exec();
  assert.match(failed[1][0].message, /not an integer/);
  assert.equal(failed[2][1], "word");

  assert.equal(await redis.hset("h", { field: "value", n: 1 }), 2);
  assert.deepEqual(await redis.hgetall("h"), { field: "value", n: "1" });
  // A script is sent by its hash first, and whole where the server does not know it.
  redis.defineCommand("limit", {
    numberOfKeys: 1,
    lua: 'local n = redis.call("INCR", KEYS[1]) if n == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[1]) end return n',
  });
  assert.equal(await redis.limit("limit", 5000), 1);
  assert.equal(await redis.limit("limit", 5000), 2);
  assert.ok((await redis.pttl("limit")) > 0);
  await redis.script("FLUSH");
  assert.equal(await redis.limit("limit", 5000), 3);

  const found = [];
  for await (const keys of redis.scanStream({ match: "?", count: 2 })) found.push(...keys);
  assert.deepEqual([...new Set(found)].sort(), ["a", "b", "h", "k", "m", "n", "p"]);
  const blob = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => index % 256));
  await redis.set("blob", blob);
  assert.deepEqual(await redis.getBuffer("blob"), blob);

  await other.subscribe("news");
  await other.psubscribe("n?ws");
  const got = [];
  const both = new Promise((resolve) => {
    const take = (message) => got.push(message) === 2 && resolve();
    other.on("message", (_, message) => take(message));
    other.on("pmessage", (_, __, message) => take(message));
  });
  assert.equal(await redis.publish("news", "hello"), 2);
  await both;
  assert.deepEqual(got, ["hello", "hello"]);
  other.disconnect();

  const monitor = await redis.monitor();
  const seen = new Promise((resolve) => monitor.on("monitor", (_, args) => resolve(args)));
  await redis.get("seen");
  assert.deepEqual((await seen).map((arg) => arg.toLowerCase()), ["get", "seen"]);
  monitor.disconnect();
  // A connection that the server ends is made anew, and what was not answered is sent again.
  const id = await redis.client("ID");
  const killer = redis.duplicate();
  await killer.client("KILL", "ID", id);
  assert.equal(await redis.get("k"), "v");
  killer.disconnect();
  await redis.quit();
}

(async () => {
  await check({});
  await check({ enableAutoPipelining: true, db: 5, lazyConnect: true });
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
