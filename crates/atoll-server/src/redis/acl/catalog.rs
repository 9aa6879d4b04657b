//! The commands and categories that rules name: those of Redis 7.0, and of later versions.
//!
//! Rules may name commands that this server does not have. So users that were written for Redis are
//! read, shown and saved as they are.
//!
//! | a subcommand | is a command of its own here |
//! |---|---|
//! | its name | has the container's name before it: `client|list` |
//! | its place | is behind its container's, among the other subcommands |

use std::sync::LazyLock;

/// How many words the bits of all commands have.
pub(super) const WORDS: usize = 6;

/// A bit for each command, by its place.
pub(super) type Bits = [u64; WORDS];

macro_rules! categories {
    ($($constant:ident $name:literal $bit:literal;)*) => {
        $(const $constant: u32 = 1 << $bit;)*
        /// The categories in the order of Redis. A category's number is its place.
        pub(crate) const CATEGORIES: [&str; [$($bit),*].len()] = [$($name),*];
    };
}

categories! {
    KEYSPACE    "keyspace"    0;
    READ        "read"        1;
    WRITE       "write"       2;
    SET         "set"         3;
    SORTEDSET   "sortedset"   4;
    LIST        "list"        5;
    HASH        "hash"        6;
    STRING      "string"      7;
    BITMAP      "bitmap"      8;
    HYPERLOGLOG "hyperloglog" 9;
    GEO         "geo"         10;
    STREAM      "stream"      11;
    PUBSUB      "pubsub"      12;
    ADMIN       "admin"       13;
    FAST        "fast"        14;
    SLOW        "slow"        15;
    BLOCKING    "blocking"    16;
    DANGEROUS   "dangerous"   17;
    CONNECTION  "connection"  18;
    TRANSACTION "transaction" 19;
    SCRIPTING   "scripting"   20;
}

/// The commands of Redis 7.0: those of the same categories together.
const REDIS: &[(u32, &str)] = &[
    (KEYSPACE | READ | FAST, "dbsize exists expiretime pexpiretime pttl touch ttl type"),
    (KEYSPACE | READ | SLOW, "dump object|encoding object|freq object|idletime object|refcount randomkey scan"),
    (KEYSPACE | READ | SLOW | DANGEROUS, "keys"),
    (KEYSPACE | WRITE | FAST, "expire expireat move persist pexpire pexpireat renamenx unlink"),
    (KEYSPACE | WRITE | FAST | DANGEROUS, "swapdb"),
    (KEYSPACE | WRITE | SLOW, "copy del rename"),
    (KEYSPACE | WRITE | SLOW | DANGEROUS, "flushall flushdb migrate restore restore-asking"),
    (KEYSPACE | SLOW, "object|help"),
    (READ | SET | SORTEDSET | LIST | SLOW | DANGEROUS, "sort_ro"),
    (READ | SET | FAST, "scard sismember smismember"),
    (READ | SET | SLOW, "sdiff sinter sintercard smembers srandmember sscan sunion"),
    (READ | SORTEDSET | FAST, "zcard zcount zlexcount zmscore zrank zrevrank zscore"),
    (
        READ | SORTEDSET | SLOW,
        "zdiff zinter zintercard zrandmember zrange zrangebylex zrangebyscore zrevrange zrevrangebylex \
         zrevrangebyscore zscan zunion",
    ),
    (READ | LIST | FAST, "llen"),
    (READ | LIST | SLOW, "lindex lpos lrange"),
    (READ | HASH | FAST, "hexists hget hlen hmget hstrlen"),
    (READ | HASH | SLOW, "hgetall hkeys hrandfield hscan hvals"),
    (READ | STRING | FAST, "get mget strlen"),
    (READ | STRING | SLOW, "getrange lcs substr"),
    (READ | BITMAP | FAST, "bitfield_ro getbit"),
    (READ | BITMAP | SLOW, "bitcount bitpos"),
    (READ | HYPERLOGLOG | SLOW, "pfcount"),
    (READ | GEO | SLOW, "geodist geohash geopos georadius_ro georadiusbymember_ro geosearch"),
    (READ | STREAM | FAST, "xlen"),
    (READ | STREAM | SLOW, "xinfo|consumers xinfo|groups xinfo|stream xpending xrange xrevrange"),
    (READ | STREAM | SLOW | BLOCKING, "xread"),
    (READ | FAST, "lolwut"),
    (READ | SLOW, "memory|usage"),
    (WRITE | SET | SORTEDSET | LIST | SLOW | DANGEROUS, "sort"),
    (WRITE | SET | FAST, "sadd smove spop srem"),
    (WRITE | SET | SLOW, "sdiffstore sinterstore sunionstore"),
    (WRITE | SORTEDSET | FAST, "zadd zincrby zpopmax zpopmin zrem"),
    (WRITE | SORTEDSET | FAST | BLOCKING, "bzpopmax bzpopmin"),
    (
        WRITE | SORTEDSET | SLOW,
        "zdiffstore zinterstore zmpop zrangestore zremrangebylex zremrangebyrank zremrangebyscore zunionstore",
    ),
    (WRITE | SORTEDSET | SLOW | BLOCKING, "bzmpop"),
    (WRITE | LIST | FAST, "lpop lpush lpushx rpop rpush rpushx"),
    (WRITE | LIST | SLOW, "linsert lmove lmpop lrem lset ltrim rpoplpush"),
    (WRITE | LIST | SLOW | BLOCKING, "blmove blmpop blpop brpop brpoplpush"),
    (WRITE | HASH | FAST, "hdel hincrby hincrbyfloat hmset hset hsetnx"),
    (WRITE | STRING | FAST, "append decr decrby getdel getex getset incr incrby incrbyfloat setnx"),
    (WRITE | STRING | SLOW, "mset msetnx psetex set setex setrange"),
    (WRITE | BITMAP | SLOW, "bitfield bitop setbit"),
    (WRITE | HYPERLOGLOG | ADMIN | SLOW | DANGEROUS, "pfdebug"),
    (WRITE | HYPERLOGLOG | FAST, "pfadd"),
    (WRITE | HYPERLOGLOG | SLOW, "pfmerge"),
    (WRITE | GEO | SLOW, "geoadd georadius georadiusbymember geosearchstore"),
    (WRITE | STREAM | FAST, "xack xadd xautoclaim xclaim xdel xsetid"),
    (WRITE | STREAM | SLOW, "xgroup|create xgroup|createconsumer xgroup|delconsumer xgroup|destroy xgroup|setid xtrim"),
    (WRITE | STREAM | SLOW | BLOCKING, "xreadgroup"),
    (WRITE | SLOW | SCRIPTING, "function|delete function|flush function|load function|restore"),
    (HYPERLOGLOG | ADMIN | SLOW | DANGEROUS, "pfselftest"),
    (STREAM | SLOW, "xgroup|help xinfo|help"),
    (PUBSUB | FAST, "publish spublish"),
    (
        PUBSUB | SLOW,
        "psubscribe pubsub|channels pubsub|numpat pubsub|numsub pubsub|shardchannels pubsub|shardnumsub \
         punsubscribe ssubscribe subscribe sunsubscribe unsubscribe",
    ),
    (ADMIN | FAST | DANGEROUS, "lastsave role"),
    (
        ADMIN | SLOW | DANGEROUS,
        "acl|deluser acl|dryrun acl|getuser acl|list acl|load acl|log acl|save acl|setuser acl|users \
         bgrewriteaof bgsave cluster|addslots cluster|addslotsrange cluster|bumpepoch \
         cluster|count-failure-reports cluster|delslots cluster|delslotsrange cluster|failover \
         cluster|flushslots cluster|forget cluster|meet cluster|replicas cluster|replicate cluster|reset \
         cluster|saveconfig cluster|set-config-epoch cluster|setslot cluster|slaves config|get \
         config|resetstat config|rewrite config|set debug failover latency|doctor latency|graph \
         latency|histogram latency|history latency|latest latency|reset module|list module|load module|loadex \
         module|unload monitor psync replconf replicaof save shutdown slaveof slowlog|get slowlog|len \
         slowlog|reset sync",
    ),
    (
        ADMIN | SLOW | DANGEROUS | CONNECTION,
        "client|kill client|list client|no-evict client|pause client|unblock client|unpause",
    ),
    (FAST, "time"),
    (FAST | CONNECTION, "asking auth echo hello ping quit readonly readwrite reset select"),
    (FAST | TRANSACTION, "discard multi unwatch watch"),
    (
        SLOW,
        "acl acl|cat acl|genpass acl|help acl|whoami client cluster cluster|countkeysinslot \
         cluster|getkeysinslot cluster|help cluster|info cluster|keyslot cluster|links cluster|myid \
         cluster|nodes cluster|shards cluster|slots config config|help function latency latency|help memory \
         memory|doctor memory|help memory|malloc-stats memory|purge memory|stats module module|help object \
         pubsub pubsub|help script slowlog slowlog|help xgroup xinfo",
    ),
    (SLOW | DANGEROUS, "info"),
    (
        SLOW | CONNECTION,
        "client|caching client|getname client|getredir client|help client|id client|info client|reply \
         client|setname client|tracking client|trackinginfo command command|count command|docs \
         command|getkeys command|getkeysandflags command|help command|info command|list wait",
    ),
    (SLOW | TRANSACTION, "exec"),
    (
        SLOW | SCRIPTING,
        "eval eval_ro evalsha evalsha_ro fcall fcall_ro function|dump function|help function|kill \
         function|list function|stats script|debug script|exists script|flush script|help script|kill \
         script|load",
    ),
];

/// Commands of later versions.
const LATER: &[(u32, &str)] = &[
    (SLOW | CONNECTION, "client|no-touch client|setinfo"),
    (SLOW | BLOCKING | CONNECTION, "waitaof"),
    (SLOW, "cluster|myshardid"),
    (READ | HASH | FAST, "hexpiretime hpexpiretime hpttl httl"),
    (WRITE | HASH | FAST, "hexpire hexpireat hgetdel hgetex hpersist hpexpire hpexpireat hsetex"),
];

/// A command.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its name, in lower case.
    pub(super) name: &'static str,
    categories: u32,
    /// Whether Redis 7.0 does not have it.
    is_later: bool,
}

impl Entry {
    /// Whether it is in the category of that number.
    pub(super) fn is_in(&self, category: usize) -> bool {
        self.categories >> category & 1 == 1
    }

    /// The name of the command that it is a subcommand of.
    pub(super) fn container(&self) -> Option<&'static str> {
        self.name.split_once('|').map(|(container, _)| container)
    }
}

/// What is true of a category.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Category {
    /// Its commands that Redis 7.0 has: how a user is described depends on them.
    pub(super) members: Bits,
    /// What a rule on it changes: its commands, and all subcommands of its containers.
    pub(super) reach: Bits,
}

#[derive(Debug)]
struct Catalog {
    /// In the order of their names.
    entries: Vec<Entry>,
    categories: [Category; CATEGORIES.len()],
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let all = REDIS.iter().map(|group| (group, false)).chain(LATER.iter().map(|group| (group, true)));
    let mut entries: Vec<Entry> = all
        .flat_map(|((categories, names), is_later)| {
            names.split(' ').map(move |name| Entry { name, categories: *categories, is_later })
        })
        .collect();
    entries.sort_by_key(|entry| entry.name);
    assert!(entries.len() <= WORDS * 64, "the bits of all commands have room");
    let mut categories = [Category::default(); CATEGORIES.len()];
    let containers: Vec<(&str, u32)> = entries.iter().map(|entry| (entry.name, entry.categories)).collect();
    for (place, entry) in entries.iter().enumerate() {
        let inherited = entry.container().map_or(0, |container| {
            let found = containers.binary_search_by_key(&container, |(name, _)| name);
            containers[found.expect("a subcommand has a container")].1
        });
        for (number, category) in categories.iter_mut().enumerate() {
            if entry.is_in(number) && !entry.is_later {
                set(&mut category.members, place);
            }
            if (entry.categories | inherited) >> number & 1 == 1 {
                set(&mut category.reach, place);
            }
        }
    }
    Catalog { entries, categories }
});

/// Sets the bit of a command.
pub(super) fn set(bits: &mut Bits, place: usize) {
    bits[place / 64] |= 1 << (place % 64);
}

/// The bit of a command.
#[inline]
pub(super) fn has(bits: &Bits, place: usize) -> bool {
    bits[place / 64] >> (place % 64) & 1 == 1
}

/// All commands, in the order of their names.
pub(super) fn entries() -> &'static [Entry] {
    &CATALOG.entries
}

/// The command of this name, which is in lower case.
pub(super) fn find(name: &str) -> Option<usize> {
    CATALOG.entries.binary_search_by_key(&name, |entry| entry.name).ok()
}

/// The places of a command and of its subcommands.
pub(super) fn family(place: usize) -> std::ops::Range<usize> {
    let name = entries()[place].name;
    let behind = &entries()[place + 1..];
    place..place + 1 + behind.iter().take_while(|entry| entry.container() == Some(name)).count()
}

/// The number of a category, whose name is in whatever case.
pub(super) fn category_number(name: &[u8]) -> Option<usize> {
    CATEGORIES.iter().position(|category| name.eq_ignore_ascii_case(category.as_bytes()))
}

/// What is true of a category.
pub(super) fn category(number: usize) -> &'static Category {
    &CATALOG.categories[number]
}

/// The categories of a command, by its name with that of its container.
pub(crate) fn categories(name: &str) -> impl Iterator<Item = &'static str> + Clone {
    let entry = find(name).map(|place| &entries()[place]);
    let is_in = move |number: &usize| entry.is_some_and(|entry| entry.is_in(*number));
    (0..CATEGORIES.len()).filter(is_in).map(|number| CATEGORIES[number])
}

/// Whether Redis, in whatever version, has a command of this name, which is in lower case.
pub(crate) fn is_command(name: &str) -> bool {
    find(name).is_some()
}

/// The categories of a command and of its subcommands.
pub(crate) fn categories_within(name: &str) -> impl Iterator<Item = &'static str> {
    find(name).into_iter().flat_map(family).flat_map(|place| categories(entries()[place].name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::command::subcommand;

    #[test]
    fn every_command_of_this_server_is_in_the_catalog_and_has_a_speed() {
        for name in subcommand::all_names() {
            let found: Vec<&str> = categories(name).collect();
            assert_eq!(found.iter().filter(|name| ["fast", "slow"].contains(name)).count(), 1, "{name}");
        }
        assert!(entries().windows(2).all(|two| two[0].name < two[1].name), "a command is there once");
        // As many as redis-server 7.0 has, and those of later versions.
        assert_eq!(entries().len(), 366 + 16);
    }

    #[test]
    fn a_container_is_followed_by_its_subcommands() {
        let names = |name: &str| -> Vec<&str> {
            entries()[family(find(name).unwrap())].iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names("object").len(), 6);
        assert_eq!(names("get"), ["get"]);
        assert_eq!(names("client|id"), ["client|id"]);
        assert!(names("client").contains(&"client|setinfo"));
    }

    #[test]
    fn a_category_reaches_the_subcommands_of_its_containers() {
        let slow = category(category_number(b"SLOW").unwrap());
        let place = find("config|get").unwrap();
        assert!(has(&slow.reach, place) && has(&slow.members, place));
        let later = find("client|setinfo").unwrap();
        assert!(has(&slow.reach, later) && !has(&slow.members, later));
    }
}
