//! The load of one client, which checks every answer.

use super::draw::{Act, Draw, Writer};
use super::ledger::{CountFloor, Ledger, Total};
use super::timings::Timings;
use super::value::{self, ENTRY_BYTES, Key, Keys, Kind};
use crate::LabError;
use atoll_cache::{
    Cache, CacheError, Condition, Engine, ExpireCondition, ExpireOutcome, Expiry, Number, SetOptions, Value,
};
use atoll_fabric::run_ready;

/// A longer list is deleted.
const LIST_BYTES_MAX: usize = 8192;
/// On this host, an object may be served so long after its expiry, in milliseconds: the skew of the
/// pool's clock, and rounding.
const EXPIRY_SLACK_MS: u64 = 5;
/// Over a network the pool's time alone decides. But its word is to follow the hosts' clocks: a
/// client's reckoning is behind by the way of the node's answer, which takes its deadline at most,
/// and by the time that the client goes without one.
const CLOCK_LAG_MS_MAX: u64 = 20_000;
/// Keys of one lookup of many.
const AT_ONCE: usize = 6;

/// One client's load.
pub(super) struct Load<'a, G: Engine> {
    cache: Cache<G>,
    ledger: &'a Ledger,
    draw: Draw,
    value: Value,
    body: Vec<u8>,
    /// Entries that this writer put into each list.
    entries: Vec<u64>,
    /// How long operations took, if that is measured.
    timings: &'a mut Timings,
    checked: u64,
    is_over_network: bool,
    wrong: &'a mut dyn FnMut(String),
}

impl<'a, G: Engine> Load<'a, G> {
    pub(super) fn new(
        cache: Cache<G>,
        ledger: &'a Ledger,
        keys: Keys,
        writer: Writer,
        timings: &'a mut Timings,
        wrong: &'a mut dyn FnMut(String),
    ) -> Self {
        Self {
            cache,
            ledger,
            draw: Draw::new(keys, writer),
            value: Value::new(),
            body: Vec::new(),
            entries: vec![0; Keys::LISTS as usize],
            timings,
            checked: 0,
            is_over_network: false,
            wrong,
        }
    }

    /// The same over a network, where the pool's time is that of the ledger.
    pub(super) fn over_network(self, is_over_network: bool) -> Self {
        Self { is_over_network, ..self }
    }

    /// What expired before this is not served by an operation that begins now.
    fn expired_ms(&self) -> u64 {
        let host_ms = self.ledger.unix_ms();
        if self.is_over_network {
            self.ledger.pool_ms().max(host_ms.saturating_sub(CLOCK_LAG_MS_MAX))
        } else {
            host_ms.saturating_sub(EXPIRY_SLACK_MS)
        }
    }

    /// The client.
    pub(super) fn cache(&mut self) -> &mut Cache<G> {
        &mut self.cache
    }

    /// Values and misses checked since the last call.
    pub(super) fn take_checked(&mut self) -> u64 {
        std::mem::take(&mut self.checked)
    }

    /// Does one operation.
    pub(super) fn step(&mut self) -> Result<(), LabError> {
        let done = match self.draw.act() {
            Act::Get => self.get(),
            Act::GetMany => {
                let keys = std::array::from_fn(|_| self.draw.some_plain());
                self.get_many(keys)
            }
            Act::Set => self.set(),
            Act::Delete => self.delete(),
            Act::Expire => self.expire(),
            Act::Chain => self.chain(),
            Act::Increment => self.increment(),
            Act::GetCounter => {
                let key = self.draw.some_of_few(Kind::Counter);
                self.get_counter(key)
            }
            Act::DeleteCounter => self.delete_counter(),
            Act::Append => self.append(),
            Act::GetList => {
                let key = self.draw.some_of_few(Kind::List);
                self.get_list(key)
            }
            Act::Reread => {
                let key = self.draw.some_reread();
                match key.kind {
                    Kind::Plain | Kind::Chain => self.look(key).map(drop),
                    Kind::Counter => self.get_counter(key),
                    Kind::List => self.get_list(key),
                }
            }
            Act::RereadMany => {
                let keys = std::array::from_fn(|_| self.draw.some_plain_reread());
                self.get_many(keys)
            }
        };
        match done {
            Err(CacheError::OutOfMemory | CacheError::NodeAbsent { .. }) => {
                self.ledger.count(Total::Refused, 1);
                Ok(())
            }
            done => Ok(done?),
        }
    }

    fn fail(&mut self, key: Key, act: &str, what: &str) {
        self.ledger.count(Total::Wrong, 1);
        (self.wrong)(format!("{act} of key {} ({:?}) gave {what}", key.number, key.kind));
    }

    /// Judges a hit or a miss of a versioned key. `floor` and `expired_ms` are from before the
    /// operation; gives the version.
    fn judge(&mut self, key: Key, act: &str, floor: u64, expired_ms: u64, hit: Option<&[u8]>) -> Option<u64> {
        self.checked += 1;
        let Some(bytes) = hit else {
            self.ledger.raise(key.number, floor | 1);
            return None;
        };
        let (least, issued) = (floor.div_ceil(2), self.ledger.issued(key.number));
        match value::read(bytes, key.number, least.max(1)..=issued) {
            Err(what) => self.fail(key, act, &what),
            Ok(seen) if seen.version < least || seen.version > issued => {
                let gone = if floor % 2 == 1 { "(a miss was seen)" } else { "" };
                let what = format!("version {}, of {least} {gone} to {issued}", seen.version);
                self.fail(key, act, &what);
            }
            Ok(seen) if seen.expiry_ms > 0 && expired_ms > seen.expiry_ms => {
                let late_ms = expired_ms - seen.expiry_ms;
                self.fail(key, act, &format!("a value {late_ms} ms after its time at least"));
            }
            Ok(seen) => {
                self.ledger.raise(key.number, 2 * seen.version);
                return Some(seen.version);
            }
        }
        None
    }

    /// Looks a versioned key up and judges; gives token and version of a hit.
    fn look(&mut self, key: Key) -> Result<Option<(u64, u64)>, CacheError> {
        let (floor, expired_ms) = (self.ledger.floor(key.number), self.expired_ms());
        let mut value = std::mem::take(&mut self.value);
        let begun = self.timings.begin();
        let hit = run_ready(self.cache.get(&key.bytes(), &mut value))?;
        self.timings.end_read(begun);
        let version = self.judge(key, "GET", floor, expired_ms, hit.then(|| value.bytes()));
        let token = value.meta().token;
        self.value = value;
        Ok(version.map(|version| (token, version)))
    }

    fn get(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_plain();
        self.look(key).map(drop)
    }

    fn get_many(&mut self, keys: [Key; AT_ONCE]) -> Result<(), CacheError> {
        let floors = keys.map(|key| self.ledger.floor(key.number));
        let expired_ms = self.expired_ms();
        let bytes = keys.map(Key::bytes);
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let mut found: Vec<Option<Vec<u8>>> = Vec::with_capacity(AT_ONCE);
        let begun = self.timings.begin();
        run_ready(self.cache.get_many(&bytes, |_, value| found.push(value.map(|value| value.bytes().to_vec()))))?;
        self.timings.end_read(begun);
        for ((key, floor), hit) in keys.into_iter().zip(floors).zip(&found) {
            self.judge(key, "MGET", floor, expired_ms, hit.as_deref());
        }
        Ok(())
    }

    fn options(condition: Condition, expiry_ms: u64) -> SetOptions {
        let expiry = if expiry_ms == 0 { Expiry::Never } else { Expiry::AtMs(expiry_ms) };
        SetOptions { condition, expiry, ..SetOptions::default() }
    }

    /// Puts the next version of `key`.
    fn put(&mut self, key: Key, version: u64, condition: Condition) -> Result<bool, CacheError> {
        let expiry_ms = self.draw.some_expiry_ms(self.ledger.unix_ms());
        value::write(&mut self.body, key.number, version, self.draw.writer.nonce, expiry_ms);
        let options = Self::options(condition, expiry_ms);
        let begun = self.timings.begin();
        let outcome = run_ready(self.cache.set(&key.bytes(), &self.body, &options))?;
        self.timings.end_write(begun);
        if outcome.stored {
            self.ledger.raise(key.number, 2 * version);
            self.ledger.count(Total::Writes, 1);
        }
        Ok(outcome.stored)
    }

    fn set(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_plain();
        let key = self.draw.own(key);
        if !self.draw.is_own(key) {
            return Ok(());
        }
        let version = self.ledger.issue(key.number);
        if !self.put(key, version, Condition::Always)? {
            self.fail(key, "SET", "nothing stored");
        }
        Ok(())
    }

    /// Removes a key, whichever writer sets it. Half of the time the value is looked at.
    fn delete(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_plain();
        let (floor, expired_ms) = (self.ledger.floor(key.number), self.expired_ms());
        let mut value = std::mem::take(&mut self.value);
        let looks = self.draw.random.below(2) == 0;
        let begun = self.timings.begin();
        let found = run_ready(self.cache.take(&key.bytes(), looks.then_some(&mut value)))?;
        self.timings.end_write(begun);
        let version = self.judge(key, "GETDEL", floor, expired_ms, (found && looks).then(|| value.bytes()));
        self.value = value;
        // What was removed, or was missing, must not come back.
        self.ledger.raise(key.number, version.map_or(floor, |version| 2 * version) | 1);
        self.ledger.count(Total::Writes, 1);
        Ok(())
    }

    /// Makes a key expire earlier. The expiry in its value remains an upper bound.
    fn expire(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_plain();
        let floor = self.ledger.floor(key.number);
        let condition = ExpireCondition { if_earlier: true, ..ExpireCondition::default() };
        let expiry = Expiry::InMs(self.draw.random.below(2000));
        let begun = self.timings.begin();
        let outcome = run_ready(self.cache.expire(&key.bytes(), expiry, condition))?;
        self.timings.end_write(begun);
        if matches!(outcome, ExpireOutcome::Absent | ExpireOutcome::Removed) {
            self.judge(key, "EXPIRE", floor, 0, None);
        }
        self.ledger.count(Total::Writes, 1);
        Ok(())
    }

    fn chain(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_chain();
        let seen = self.look(key)?;
        if self.draw.random.below(2) == 0 {
            return Ok(());
        }
        match seen {
            Some((token, _)) => {
                let version = self.ledger.issue(key.number);
                self.put(key, version, Condition::IfToken(token)).map(drop)
            }
            None if self.draw.is_own(key) => {
                // Only this writer makes the key, and it was missing, so SETNX must store.
                let version = self.ledger.issue(key.number);
                if !self.put(key, version, Condition::IfAbsent)? {
                    self.fail(key, "SETNX", "nothing stored, though only this client makes it and it was missing");
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Judges a count that was seen; the pair is from before the operation. `least` is 1 above the
    /// floor for an increment.
    fn judge_count(&mut self, key: Key, act: &str, floor: CountFloor, ended: u32, count: Option<u64>, more: u32) {
        self.checked += 1;
        let issued = self.ledger.issued(key.number);
        let count = match count {
            Some(count) => {
                let continues = floor.count.is_some_and(|least| count >= u64::from(least + more));
                let begun_anew = count <= issued.saturating_sub(floor.ended.into());
                if count > issued || !continues && !begun_anew {
                    let what = format!("{count}, after {floor:?}, with {issued} increments issued");
                    self.fail(key, act, &what);
                }
                Some(count as u32)
            }
            None => None,
        };
        self.ledger.set_count_floor(key.number, floor, CountFloor { count, ended });
    }

    fn before_count(&self, key: Key) -> (CountFloor, u32) {
        // The floor first: the increments that had ended are those before the operation either way.
        let floor = self.ledger.count_floor(key.number);
        (floor, self.ledger.ended(key.number) as u32)
    }

    fn increment(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_of_few(Kind::Counter);
        let (floor, ended) = self.before_count(key);
        self.ledger.issue(key.number);
        let begun = self.timings.begin();
        let number = run_ready(self.cache.increment(&key.bytes(), 1))?;
        self.timings.end_write(begun);
        match number {
            Number::Value(count) => self.judge_count(key, "INCR", floor, ended, Some(count as u64), 1),
            other => self.fail(key, "INCR", &format!("{other:?}")),
        }
        self.ledger.end_increment(key.number);
        self.ledger.count(Total::Writes, 1);
        Ok(())
    }

    fn get_counter(&mut self, key: Key) -> Result<(), CacheError> {
        let (floor, ended) = self.before_count(key);
        let begun = self.timings.begin();
        let hit = run_ready(self.cache.get(&key.bytes(), &mut self.value))?;
        self.timings.end_read(begun);
        let count = std::str::from_utf8(self.value.bytes()).ok().and_then(|text| text.parse().ok());
        match (hit, count) {
            (true, None) => self.fail(key, "GET", "what is no number"),
            _ => self.judge_count(key, "GET", floor, ended, count.filter(|_| hit), 0),
        }
        Ok(())
    }

    fn delete_counter(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_of_few(Kind::Counter);
        let (floor, ended) = self.before_count(key);
        run_ready(self.cache.delete(&key.bytes()))?;
        self.judge_count(key, "DEL", floor, ended, None, 0);
        Ok(())
    }

    fn append(&mut self) -> Result<(), CacheError> {
        let key = self.draw.some_of_few(Kind::List);
        let index = (key.number - self.draw.keys.key(Kind::List, 0).number) as usize;
        let entry = value::entry(key.number, self.draw.writer.nonce, self.entries[index] + 1);
        let begun = self.timings.begin();
        let length = run_ready(self.cache.append(&key.bytes(), &entry))?;
        self.timings.end_write(begun);
        self.entries[index] += 1;
        self.ledger.count(Total::Writes, 1);
        if length == 0 || !length.is_multiple_of(ENTRY_BYTES) {
            self.fail(key, "APPEND", &format!("a list of {length} bytes"));
        }
        if length > LIST_BYTES_MAX {
            run_ready(self.cache.delete(&key.bytes()))?;
        }
        Ok(())
    }

    fn get_list(&mut self, key: Key) -> Result<(), CacheError> {
        let begun = self.timings.begin();
        let hit = run_ready(self.cache.get(&key.bytes(), &mut self.value))?;
        self.timings.end_read(begun);
        self.checked += 1;
        if hit && let Err(what) = value::check_list(self.value.bytes(), key.number) {
            self.fail(key, "GET", &what);
        }
        Ok(())
    }
}
