//! The table of all commands: one line for each.
//!
//! The lines become the enum [`Id`], the array [`SPECS`] and the function that calls a command's
//! handler. The call is a `match`, because a handler is generic over the engine and async. Behind a
//! pointer each call would allocate memory.
//!
//! A name is found by a hash table that is built at compile time. The name in lower case is one
//! 16-byte number, and multiplication picks its place. Colliding names occupy the places after it.

use super::*;

/// What is true of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// It may change keys.
    Write,
    /// It reads keys and changes none.
    Readonly,
    /// It may need memory, and so be refused.
    Denyoom,
    /// Its time does not grow with what is in the cache, nor with a value.
    Fast,
    /// It is not for programs.
    Admin,
    /// The table does not say where its keys are.
    Movablekeys,
    /// It runs before the peer has given a password.
    NoAuth,
    /// It is not for scripts.
    Noscript,
    /// It is not for transactions.
    NoMulti,
    /// It is about channels.
    Pubsub,
    /// Its second word is a subcommand.
    Container,
    /// It runs a script, alone.
    Script,
    /// No command of another connection of this server runs beside it.
    Alone,
}

impl Flag {
    /// Its name in the reply of `COMMAND`, unless only this server knows it.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Write => "write",
            Self::Readonly => "readonly",
            Self::Denyoom => "denyoom",
            Self::Fast => "fast",
            Self::Admin => "admin",
            Self::Movablekeys => "movablekeys",
            Self::NoAuth => "no_auth",
            Self::Noscript => "noscript",
            Self::NoMulti => "no_multi",
            Self::Pubsub => "pubsub",
            Self::Alone | Self::Container | Self::Script => return None,
        })
    }
}

/// One line of the table.
#[derive(Debug)]
pub struct Spec {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of arguments, the name among them; if negative, at least this many.
    pub arity: i32,
    /// What is true of it.
    pub flags: &'static [Flag],
    /// The file of its handler, which is its group in the documentation.
    pub family: &'static str,
    /// Its first key, its last (negative: counted from the last argument) and the step between
    /// them; 0 for none.
    pub keys: (i32, i32, i32),
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// What it does.
    pub summary: &'static str,
}

impl Spec {
    /// Whether it takes so many arguments, its name among them.
    #[inline]
    pub fn takes(&self, args: usize) -> bool {
        if self.arity >= 0 { args == self.arity as usize } else { args >= -self.arity as usize }
    }
}

/// Whether a command may change keys, or sends a message: what a read-only script may not call.
pub(in crate::redis) fn writes_or_tells(id: Id) -> bool {
    matches!(id, Id::Publish | Id::Spublish) || SPECS[id as usize].flags.contains(&Flag::Write)
}

/// Every command, in the order of its name.
pub(super) fn ids() -> impl Iterator<Item = Id> {
    IDS.into_iter()
}

macro_rules! commands {
    ($($id:ident $name:literal $arity:literal [$($flag:ident)*] ($($key:literal)*) $family:ident::$handler:ident $since:literal $summary:literal;)*) => {
        /// A command: its place in [`SPECS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Id {
            $(#[doc = $summary] $id,)*
        }

        /// Every command, in the order of its name.
        pub static SPECS: [Spec; COMMANDS] = [$(Spec {
            name: $name,
            arity: $arity,
            flags: &[$(Flag::$flag),*],
            family: stringify!($family),
            keys: ($($key),*),
            since: $since,
            summary: $summary,
        }),*];

        const IDS: [Id; COMMANDS] = [$(Id::$id),*];
        /// Their names.
        pub(crate) static NAMES: [&str; COMMANDS] = [$($name),*];

        /// How many commands there are.
        pub const COMMANDS: usize = [$($name),*].len();

        /// Calls the handler of a command.
        #[inline]
        pub(super) async fn call<G: Engine>(id: Id, context: &mut Context<'_, G>) -> Outcome {
            match id {
                $(Id::$id => $family::$handler(context).await,)*
            }
        }
    };
}

commands! {
    Acl         "acl"         -2 [Admin Noscript Container]    (0 0 0)  acl::acl              "6.0.0" "Users, and what they may do";
    Append      "append"      3  [Write Denyoom Fast] (1 1 1)  range::append          "2.0.0" "Appends to a value";
    Asking      "asking"      1  [Fast]               (0 0 0)  absent::cluster        "3.0.0" "Refused: this server is in no cluster";
    Auth        "auth"        -2 [NoAuth Noscript Fast] (0 0 0) connection::auth      "1.0.0" "Gives the password";
    Bitcount    "bitcount"    -2 [Readonly]           (1 1 1)  bitmap::bitcount       "2.6.0" "The number of bits that are set";
    Bitfield    "bitfield"    -2 [Write Denyoom]      (1 1 1)  bitfield::bitfield     "3.2.0" "Reads and changes integers of any number of bits";
    BitfieldRo  "bitfield_ro" -2 [Readonly Fast]      (1 1 1)  bitfield::bitfield_ro  "6.0.0" "Reads integers of any number of bits";
    Bitop       "bitop"       -4 [Write Denyoom Alone] (2 -1 1) bitmap::bitop         "2.6.0" "Joins values bit by bit";
    Bitpos      "bitpos"      -3 [Readonly]           (1 1 1)  bitmap::bitpos         "2.8.7" "The first bit that is set, or is not";
    Client      "client"      -2 [Noscript Container]          (0 0 0)  client::client         "2.4.0" "The connections of the server";
    Cluster     "cluster"     -2 []                   (0 0 0)  absent::cluster        "3.0.0" "Refused: this server is in no cluster";
    Command     "command"     -1 [Container]                   (0 0 0)  introspect::command    "2.8.13" "The commands of the server";
    Config      "config"      -2 [Admin Noscript Container]    (0 0 0)  config::config         "2.0.0" "The parameters of the server";
    Copy        "copy"        -3 [Write Denyoom Alone] (1 2 1) key::copy              "6.2.0" "Copies a key";
    Dbsize      "dbsize"      1  [Readonly Fast]      (0 0 0)  keyspace::dbsize       "1.0.0" "The number of keys";
    Debug       "debug"       -2 [Admin Noscript]     (0 0 0)  absent::debug          "1.0.0" "Refused: there is nothing to debug";
    Decr        "decr"        2  [Write Denyoom Fast] (1 1 1)  count::decr            "1.0.0" "Takes one from an integer";
    Decrby      "decrby"      3  [Write Denyoom Fast] (1 1 1)  count::decrby          "1.0.0" "Takes a number from an integer";
    Del         "del"         -2 [Write]              (1 -1 1) key::del               "1.0.0" "Removes keys";
    Discard     "discard"     1  [Noscript Fast]      (0 0 0)  transaction::discard   "2.0.0" "Forgets the commands since MULTI";
    Echo        "echo"        2  [Fast]               (0 0 0)  connection::echo       "1.0.0" "Gives its argument back";
    Eval        "eval"        -3 [Noscript Movablekeys Script] (0 0 0) script::eval   "2.6.0" "Runs a script";
    EvalRo      "eval_ro"     -3 [Readonly Noscript Movablekeys Script] (0 0 0) script::eval "7.0.0" "Runs a script that only reads";
    Evalsha     "evalsha"     -3 [Noscript Movablekeys Script] (0 0 0) script::eval   "2.6.0" "Runs a script that the server knows";
    EvalshaRo   "evalsha_ro"  -3 [Readonly Noscript Movablekeys Script] (0 0 0) script::eval "7.0.0" "Runs a script that the server knows and that only reads";
    Exec        "exec"        1  [Noscript]           (0 0 0)  transaction::exec      "1.2.0" "Runs the commands since MULTI";
    Exists      "exists"      -2 [Readonly Fast]      (1 -1 1) key::exists            "1.0.0" "How many of the keys are there";
    Expire      "expire"      -3 [Write Fast]         (1 1 1)  expire::expire         "1.0.0" "Lets a key expire after some seconds";
    Expireat    "expireat"    -3 [Write Fast]         (1 1 1)  expire::expireat       "1.2.0" "Lets a key expire at a second";
    Expiretime  "expiretime"  2  [Readonly Fast]      (1 1 1)  expire::expiretime     "7.0.0" "The second at which a key expires";
    Flushall    "flushall"    -1 [Write]              (0 0 0)  keyspace::flushall     "1.0.0" "Removes all keys";
    Flushdb     "flushdb"     -1 [Write]              (0 0 0)  keyspace::flushdb      "1.0.0" "Removes all keys of the database";
    Function    "function"    -2 [Noscript Container] (0 0 0)  absent::function       "7.0.0" "Functions, of which there are none";
    Get         "get"         2  [Readonly Fast]      (1 1 1)  string::get            "1.0.0" "The value of a key";
    Getbit      "getbit"      3  [Readonly Fast]      (1 1 1)  bitmap::getbit         "2.2.0" "A bit of a value";
    Getdel      "getdel"      2  [Write Fast]         (1 1 1)  string::getdel         "6.2.0" "The value of a key, which is removed";
    Getex       "getex"       -2 [Write Fast]         (1 1 1)  string::getex          "6.2.0" "The value of a key, whose expiry is changed";
    Getrange    "getrange"    4  [Readonly]           (1 1 1)  range::getrange        "2.4.0" "A part of a value";
    Getset      "getset"      3  [Write Denyoom Fast] (1 1 1)  string::getset         "1.0.0" "Sets a value and gives the old one";
    Hdel        "hdel"        -3 [Write Fast]         (1 1 1)  hash::hdel             "2.0.0" "Removes fields of a hash";
    Hello       "hello"       -1 [NoAuth Noscript Fast]            (0 0 0)  connection::hello      "6.0.0" "Agrees on the protocol";
    Hexists     "hexists"     3  [Readonly Fast]      (1 1 1)  hash::hexists          "2.0.0" "Whether a hash has a field";
    Hget        "hget"        3  [Readonly Fast]      (1 1 1)  hash::hget             "2.0.0" "The value of a field";
    Hgetall     "hgetall"     2  [Readonly]           (1 1 1)  hash::hgetall          "2.0.0" "All fields of a hash and their values";
    Hincrby     "hincrby"     4  [Write Denyoom Fast] (1 1 1)  hash::hincrby          "2.0.0" "Adds a number to an integer in a field";
    Hincrbyfloat "hincrbyfloat" 4 [Write Denyoom Fast] (1 1 1) hash::hincrbyfloat     "2.6.0" "Adds to a floating-point number in a field";
    Hkeys       "hkeys"       2  [Readonly]           (1 1 1)  hash::hkeys            "2.0.0" "All fields of a hash";
    Hlen        "hlen"        2  [Readonly Fast]      (1 1 1)  hash::hlen             "2.0.0" "How many fields a hash has";
    Hmget       "hmget"       -3 [Readonly Fast]      (1 1 1)  hash::hmget            "2.0.0" "The values of many fields";
    Hmset       "hmset"       -4 [Write Denyoom Fast] (1 1 1)  hash::hmset            "2.0.0" "Sets many fields of a hash";
    Hrandfield  "hrandfield"  -2 [Readonly]           (1 1 1)  hash::hrandfield       "6.2.0" "Some fields of a hash";
    Hscan       "hscan"       -3 [Readonly]           (1 1 1)  hash::hscan            "2.8.0" "The fields of a hash that match a pattern";
    Hset        "hset"        -4 [Write Denyoom Fast] (1 1 1)  hash::hset             "2.0.0" "Sets fields of a hash";
    Hsetnx      "hsetnx"      4  [Write Denyoom Fast] (1 1 1)  hash::hsetnx           "2.0.0" "Sets a field if it is not there";
    Hstrlen     "hstrlen"     3  [Readonly Fast]      (1 1 1)  hash::hstrlen          "3.2.0" "The length of a field's value";
    Hvals       "hvals"       2  [Readonly]           (1 1 1)  hash::hvals            "2.0.0" "All values of a hash";
    Incr        "incr"        2  [Write Denyoom Fast] (1 1 1)  count::incr            "1.0.0" "Adds one to an integer";
    Incrby      "incrby"      3  [Write Denyoom Fast] (1 1 1)  count::incrby          "1.0.0" "Adds a number to an integer";
    Incrbyfloat "incrbyfloat" 3  [Write Denyoom Fast] (1 1 1)  count::incrbyfloat     "2.6.0" "Adds to a floating-point number";
    Info        "info"        -1 []                   (0 0 0)  info::info             "1.0.0" "What the server is and does";
    Keys        "keys"        2  [Readonly]           (0 0 0)  keyspace::keys         "1.0.0" "All keys that match a pattern";
    Lastsave    "lastsave"    1  [Fast]               (0 0 0)  absent::lastsave       "1.0.0" "When the server started: nothing is saved";
    Latency     "latency"     -2 [Admin Noscript Container] (0 0 0)  slow::latency    "2.8.13" "Moments in which commands took long";
    Lcs         "lcs"         -3 [Readonly]           (1 2 1)  lcs::lcs               "7.0.0" "The longest common subsequence of two values";
    Memory      "memory"      -2 [Container]          (0 0 0)  memory::memory         "4.0.0" "What keys and the server take of memory";
    Mget        "mget"        -2 [Readonly Fast]      (1 -1 1) string::mget           "1.0.0" "The values of many keys";
    Module      "module"      -2 [Admin Noscript Container] (0 0 0)  absent::module    "4.0.0" "Modules, of which there are none";
    Monitor     "monitor"     1  [Admin Noscript]     (0 0 0)  client::monitor        "1.0.0" "Shows every command of the server";
    Move        "move"        3  [Write Fast Alone]   (1 1 1)  key::relocate          "1.0.0" "Moves a key to another database";
    Mset        "mset"        -3 [Write Denyoom]      (1 -1 2) string::mset           "1.0.1" "Sets many keys";
    Msetnx      "msetnx"      -3 [Write Denyoom Alone](1 -1 2) string::msetnx         "1.0.1" "Sets many keys if none is there";
    Multi       "multi"       1  [Noscript Fast]      (0 0 0)  transaction::multi     "1.2.0" "Lets commands wait for EXEC";
    Object      "object"      -2 [Container]          (0 0 0)  memory::object         "2.2.3" "How a value is held";
    Persist     "persist"     2  [Write Fast]         (1 1 1)  expire::persist        "2.2.0" "Lets a key expire never";
    Pexpire     "pexpire"     -3 [Write Fast]         (1 1 1)  expire::pexpire        "2.6.0" "Lets a key expire after some milliseconds";
    Pexpireat   "pexpireat"   -3 [Write Fast]         (1 1 1)  expire::pexpireat      "2.6.0" "Lets a key expire at a millisecond";
    Pexpiretime "pexpiretime" 2  [Readonly Fast]      (1 1 1)  expire::pexpiretime    "7.0.0" "The millisecond at which a key expires";
    Pfadd       "pfadd"       -2 [Write Denyoom Fast] (1 1 1)  hyperloglog::pfadd     "2.8.9" "Adds elements to a set whose size is estimated";
    Pfcount     "pfcount"     -2 [Readonly]           (1 -1 1) hyperloglog::pfcount   "2.8.9" "About how many different elements sets had";
    Pfmerge     "pfmerge"     -2 [Write Denyoom Alone] (1 -1 1) hyperloglog::pfmerge  "2.8.9" "Joins sets whose size is estimated";
    Ping        "ping"        -1 [Fast]               (0 0 0)  connection::ping       "1.0.0" "Says that the server lives";
    Psetex      "psetex"      4  [Write Denyoom]      (1 1 1)  string::psetex         "2.6.0" "Sets a value that expires after some milliseconds";
    Psubscribe  "psubscribe"  -2 [Pubsub Noscript]    (0 0 0)  pubsub::subscribe      "2.0.0" "Gets the messages of channels that match patterns";
    Pttl        "pttl"        2  [Readonly Fast]      (1 1 1)  expire::pttl           "2.6.0" "Milliseconds until a key expires";
    Publish     "publish"     3  [Pubsub Fast]        (0 0 0)  pubsub::publish        "2.0.0" "Sends a message to a channel";
    Pubsub      "pubsub"      -2 [Container]          (0 0 0)  pubsub::pubsub         "2.8.0" "Channels and how many have subscribed";
    Punsubscribe "punsubscribe" -1 [Pubsub Noscript]  (0 0 0)  pubsub::unsubscribe    "2.0.0" "Gets the messages of patterns no longer";
    Quit        "quit"        -1 [NoAuth Noscript Fast]            (0 0 0)  connection::quit       "1.0.0" "Ends the connection";
    Randomkey   "randomkey"   1  [Readonly]           (0 0 0)  keyspace::randomkey    "1.0.0" "Some key";
    Readonly    "readonly"    1  [Fast]               (0 0 0)  absent::cluster        "3.0.0" "Refused: this server is in no cluster";
    Readwrite   "readwrite"   1  [Fast]               (0 0 0)  absent::cluster        "3.0.0" "Refused: this server is in no cluster";
    Rename      "rename"      3  [Write Alone]        (1 2 1)  key::rename            "1.0.0" "Gives a key another name";
    Renamenx    "renamenx"    3  [Write Fast Alone]   (1 2 1)  key::renamenx          "1.0.0" "Gives a key another name that is not there";
    Reset       "reset"       1  [NoAuth Noscript Fast]            (0 0 0)  connection::reset      "6.2.0" "Makes the connection as if it were new";
    Role        "role"        1  [Noscript Fast]      (0 0 0)  absent::role           "2.8.12" "A master without replicas";
    Scan        "scan"        -2 [Readonly]           (0 0 0)  keyspace::scan         "2.8.0" "All keys, some at a time";
    Script      "script"      -2 [Noscript Container] (0 0 0)  script::script         "2.6.0" "The scripts that the server knows";
    Select      "select"      2  [Fast]               (0 0 0)  connection::select     "1.0.0" "Chooses a database";
    Set         "set"         -3 [Write Denyoom]      (1 1 1)  string::set            "1.0.0" "Sets a value";
    Setbit      "setbit"      4  [Write Denyoom]      (1 1 1)  bitmap::setbit         "2.2.0" "Changes a bit of a value";
    Setex       "setex"       4  [Write Denyoom]      (1 1 1)  string::setex          "2.0.0" "Sets a value that expires after some seconds";
    Setnx       "setnx"       3  [Write Denyoom Fast] (1 1 1)  string::setnx          "1.0.0" "Sets a value if the key is not there";
    Setrange    "setrange"    4  [Write Denyoom]      (1 1 1)  range::setrange        "2.2.0" "Overwrites a part of a value";
    Shutdown    "shutdown"    -1 [Admin Noscript NoMulti] (0 0 0) connection::shutdown   "1.0.0" "Stops the server";
    Slowlog     "slowlog"     -2 [Admin Container]    (0 0 0)  slow::slowlog          "2.2.12" "Commands that took long";
    Sort        "sort"        -2 [Write Denyoom]      (1 1 1)  absent::sort           "1.0.0" "Nothing: no key holds what can be sorted";
    SortRo      "sort_ro"     -2 [Readonly]           (1 1 1)  absent::sort           "7.0.0" "Nothing: no key holds what can be sorted";
    Spublish    "spublish"    3  [Pubsub Fast]        (0 0 0)  pubsub::spublish       "7.0.0" "Sends a message to a shard channel";
    Ssubscribe  "ssubscribe"  -2 [Pubsub Noscript]    (0 0 0)  pubsub::subscribe      "7.0.0" "Gets the messages of shard channels";
    Strlen      "strlen"      2  [Readonly Fast]      (1 1 1)  range::strlen          "2.2.0" "The length of a value";
    Subscribe   "subscribe"   -2 [Pubsub Noscript]    (0 0 0)  pubsub::subscribe      "2.0.0" "Gets the messages of channels";
    Substr      "substr"      4  [Readonly]           (1 1 1)  range::getrange        "1.0.0" "A part of a value";
    Sunsubscribe "sunsubscribe" -1 [Pubsub Noscript]  (0 0 0)  pubsub::unsubscribe    "7.0.0" "Gets the messages of shard channels no longer";
    Swapdb      "swapdb"      3  [Write Fast Alone]   (0 0 0)  keyspace::swapdb       "4.0.0" "Exchanges the numbers of two databases";
    Time        "time"        1  [Fast]               (0 0 0)  info::time             "2.6.0" "The server's time";
    Touch       "touch"       -2 [Readonly Fast]      (1 -1 1) key::touch             "3.2.1" "Counts an access to keys";
    Ttl         "ttl"         2  [Readonly Fast]      (1 1 1)  expire::ttl            "1.0.0" "Seconds until a key expires";
    Type        "type"        2  [Readonly Fast]      (1 1 1)  key::kind              "1.0.0" "What a key holds";
    Unlink      "unlink"      -2 [Write Fast]         (1 -1 1) key::del               "4.0.0" "Removes keys";
    Unsubscribe "unsubscribe" -1 [Pubsub Noscript]    (0 0 0)  pubsub::unsubscribe    "2.0.0" "Gets the messages of channels no longer";
    Unwatch     "unwatch"     1  [Noscript Fast]      (0 0 0)  transaction::unwatch   "2.2.0" "Watches no key";
    Wait        "wait"        3  [Noscript]           (0 0 0)  absent::wait           "3.0.0" "How many replicas have what was written: none";
    Watch       "watch"       -2 [Noscript Fast]      (1 -1 1) transaction::watch     "2.2.0" "Lets EXEC run only if keys have not changed";
}

/// Longest name of a command.
const NAME_BYTES_MAX: usize = 16;
/// A power of two, and at least twice the number of commands: a place is found in few steps.
const PLACES: usize = 512;
/// The place has no command.
const NOBODY: u8 = u8::MAX;

const _: () = assert!(PLACES.is_power_of_two() && COMMANDS * 2 <= PLACES && COMMANDS < NOBODY as usize);

static NUMBERS: [u128; COMMANDS] = {
    let mut numbers = [0; COMMANDS];
    let mut index = 0;
    while index < COMMANDS {
        numbers[index] = number_of(NAMES[index].as_bytes());
        index += 1;
    }
    numbers
};

static TABLE: [u8; PLACES] = {
    let mut table = [NOBODY; PLACES];
    let mut index = 0;
    while index < COMMANDS {
        let mut place = place_of(number_of(NAMES[index].as_bytes()));
        while table[place] != NOBODY {
            place = (place + 1) % PLACES;
        }
        table[place] = index as u8;
        index += 1;
    }
    table
};

const fn number_of(name: &[u8]) -> u128 {
    let mut bytes = [0; NAME_BYTES_MAX];
    let mut index = 0;
    while index < name.len() {
        bytes[index] = name[index].to_ascii_lowercase();
        index += 1;
    }
    u128::from_le_bytes(bytes)
}

const fn place_of(number: u128) -> usize {
    let folded = (number as u64) ^ ((number >> 64) as u64).rotate_left(29);
    // The upper bits are those that the product mixes best.
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

/// The command called `name`, in whatever case.
#[inline]
pub fn find(name: &[u8]) -> Option<Id> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let number = number_of(name);
    let mut place = place_of(number);
    loop {
        let index = TABLE[place];
        if index == NOBODY {
            return None;
        }
        if NUMBERS[index as usize] == number && NAMES[index as usize].len() == name.len() {
            return Some(IDS[index as usize]);
        }
        place = (place + 1) % PLACES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case_and_stands_in_order() {
        assert!(NAMES.is_sorted());
        for (index, name) in NAMES.iter().enumerate() {
            assert!(name.len() <= NAME_BYTES_MAX);
            assert_eq!(find(name.as_bytes()).map(|id| id as usize), Some(index));
            assert_eq!(find(name.to_uppercase().as_bytes()).map(|id| id as usize), Some(index));
            assert_eq!(SPECS[index].name, *name);
        }
        for other in ["", "ge", "gett", "get\0", "g\u{45}\u{f4}", "averyveryverylongname"] {
            assert_eq!(find(other.as_bytes()), None, "{other}");
        }
    }
}
