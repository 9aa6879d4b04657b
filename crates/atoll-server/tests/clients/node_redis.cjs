// node-redis as a client: node node_redis.cjs PORT. The module is found by NODE_PATH.
const assert = require("node:assert/strict");
const { createClient, createClientPool, WatchError } = require("redis");

const url = `redis://127.0.0.1:${process.argv[2]}`;

async function check(options) {
  const client = await createClient({ url, name: "node", ...options }).connect();
  await client.flushAll();
  assert.equal(await client.set("k", "v", { EX: 100 }), "OK");
  assert.equal(await client.get("k"), "v");
  assert.equal(await client.get("absent"), null);
  assert.equal(await client.set("k", "w", { NX: true }), null);
  assert.ok((await client.ttl("k")) > 0);
  assert.deepEqual(await client.mSet({ a: "1", b: "2" }), "OK");
  assert.deepEqual(await client.mGet(["a", "none", "b"]), ["1", null, "2"]);
  assert.equal(await client.incrBy("a", 41), 42);
  assert.equal(await client.incrByFloat("f", 0.5), "0.5");
  // Commands of one turn go out as one pipeline.
  const many = await Promise.all(Array.from({ length: 1000 }, (_, index) => client.incr("n")));
  assert.deepEqual(many, Array.from({ length: 1000 }, (_, index) => index + 1));
  assert.deepEqual(await client.multi().set("m", "1").incr("m").get("m").exec(), ["OK", 2, "2"]);

  const pool = await createClientPool({ url, ...options }, { maximum: 3 }).connect();
  await assert.rejects(
    pool.execute(async (one) => {
      await one.watch("m");
      await client.set("m", "changed");
      return one.multi().set("m", "lost").exec();
    }),
    WatchError,
  );
  assert.equal(await client.get("m"), "changed");
  await pool.destroy();

  assert.equal(await client.hSet("h", { field: "value", n: "1" }), 2);
  assert.deepEqual({ ...(await client.hGetAll("h")) }, { field: "value", n: "1" });
  assert.equal(await client.hIncrBy("h", "n", 6), 7);
  const release = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0';
  await client.set("lock", "mine", { NX: true, PX: 10000 });
  assert.equal(await client.eval(release, { keys: ["lock"], arguments: ["another's"] }), 0);
  assert.equal(await client.eval(release, { keys: ["lock"], arguments: ["mine"] }), 1);

  const found = [];
  for await (const keys of client.scanIterator({ MATCH: "?" })) found.push(...keys);
  assert.deepEqual(found.sort(), ["a", "b", "f", "h", "k", "m", "n"]);
  await assert.rejects(client.incr("k"), /not an integer/);
  await assert.rejects(client.sendCommand(["LPUSH", "k", "x"]), Error);

  const listener = await client.duplicate().connect();
  const got = new Promise((resolve) => listener.subscribe("news", resolve));
  while ((await client.publish("news", "hello")) === 0);
  assert.equal(await got, "hello");
  await listener.unsubscribe("news");
  await listener.close();

  const blob = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => index % 256));
  await client.set("blob", blob);
  assert.deepEqual(Buffer.from(await client.sendCommand(["GET", "blob"], { typeMapping: { 36: Buffer } })), blob);
  assert.match(await client.info("server"), /redis_mode:standalone/);
  assert.equal(await client.clientGetName(), "node");
  await client.select(3);
  assert.equal(await client.dbSize(), 0);
  client.destroy();
}

(async () => {
  await check({ RESP: 2 });
  await check({ RESP: 3 });
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
